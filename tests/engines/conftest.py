import importlib.util

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/engines" in str(item.path):
            item.add_marker(pytest.mark.engine)
            if importlib.util.find_spec("xllamacpp") is None:
                item.add_marker(
                    pytest.mark.skip(reason='xllamacpp is missing: pip install "warmroute[llama-cpp]"')
                )
