"""What is raised where a user's mistake has no class of Python's own."""


class ShardwrightError(ValueError):
    """One line that names the thing as the user wrote it and says what would be right."""
