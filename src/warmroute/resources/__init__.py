"""SageMaker's resources: records, validation, operations and life cycles, as pure functions."""
