"""SageMaker's resources: records, the rules of their operations, and the plan that makes them real."""
