"""What is honoured, stored or rejected of each operation, member by member."""
