"""Write byte-tiny.gguf: a very small Llama whose tokens are bytes, for trials, tests and the demo.

What it says is noise; how it behaves is real: a real llama.cpp server loads it in a quarter of a
second, keeps a real KV cache and streams real tokens. Its weights come from a hash, so that the
file is the same byte for byte with every version of numpy and on every machine.

    pip install gguf numpy
    python tools/make_byte_tiny.py src/warmroute/adapters/images/byte-tiny.gguf
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter, LlamaFileType

NAME = "byte-tiny"
SEED = b"warmroute/byte-tiny/1"
LAYERS, HIDDEN, FEED_FORWARD = 2, 64, 128
HEADS, KV_HEADS = 2, 1
HEAD_WIDTH = HIDDEN // HEADS
CONTEXT_TOKENS = 32768
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END_OF_TEXT, START_OF_TURN, END_OF_TURN = range(3)
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def byte_symbols() -> list[str]:
    """Return the character that stands for each byte in a GPT-2 vocabulary.

    Bytes that print stand for themselves; the others take the code points from 256 on, in order.
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    symbols, substitute = [], 256
    for byte in range(256):
        if byte in printing:
            symbols.append(chr(byte))
        else:
            symbols.append(chr(substitute))
            substitute += 1
    return symbols


def weights(name: str, rows: int, columns: int, scale: float = 1.0) -> Any:
    """Return a (rows, columns) float16 matrix of uniform numbers with the given gain.

    The numbers are the output of SHAKE-256 over the tensor's name: no random number generator,
    whose stream a library may change.
    """
    count = rows * columns
    raw = hashlib.shake_256(SEED + b"/" + name.encode()).digest(2 * count)
    uniform = np.frombuffer(raw, dtype="<u2").astype(np.float64) / 32767.5 - 1.0
    return (uniform * (scale / np.sqrt(columns))).reshape(rows, columns).astype(np.float16)


def tensors(vocabulary_size: int) -> dict[str, Any]:
    """Return every tensor of the model under its GGUF name."""
    ones = np.ones(HIDDEN, dtype=np.float32)
    head = weights("output.weight", vocabulary_size, HIDDEN, scale=8.0)
    says = np.zeros((vocabulary_size, 1), dtype=np.float16)
    says[[len(SPECIAL) + byte for byte in range(0x20, 0x7F)]] = 1
    result = {
        "token_embd.weight": weights("token_embd.weight", vocabulary_size, HIDDEN),
        "output_norm.weight": ones,
        # Rows of zeros are never the greatest: at temperature 0 it prints ASCII and never ends by
        # itself, so that an answer has exactly the length that was asked for.
        "output.weight": head * says,
    }
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        shapes = {
            "attn_q": (HEADS * HEAD_WIDTH, HIDDEN),
            "attn_k": (KV_HEADS * HEAD_WIDTH, HIDDEN),
            "attn_v": (KV_HEADS * HEAD_WIDTH, HIDDEN),
            "attn_output": (HIDDEN, HEADS * HEAD_WIDTH),
            "ffn_gate": (FEED_FORWARD, HIDDEN),
            "ffn_up": (FEED_FORWARD, HIDDEN),
            "ffn_down": (HIDDEN, FEED_FORWARD),
        }
        result[block + "attn_norm.weight"] = ones
        result[block + "ffn_norm.weight"] = ones
        for name, (rows, columns) in shapes.items():
            full = f"{block}{name}.weight"
            result[full] = weights(full, rows, columns)
    return result


def write(path: Path) -> None:
    """Write the model to ``path``."""
    symbols = byte_symbols()
    # llama.cpp insists on a merge. Two NUL bytes do not meet in text, so one byte is one token.
    tokens = [*SPECIAL, *symbols, symbols[0] * 2]
    writer = GGUFWriter(path, "llama")
    writer.add_name(NAME)
    writer.add_file_type(int(LlamaFileType.MOSTLY_F16))
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges([f"{symbols[0]} {symbols[0]}"])
    writer.add_bos_token_id(START_OF_TURN)
    writer.add_eos_token_id(END_OF_TURN)
    writer.add_unk_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in tensors(len(tokens)).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path, help="where to write the GGUF file")
    path: Path = parser.parse_args().path
    write(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{path}: {path.stat().st_size} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
