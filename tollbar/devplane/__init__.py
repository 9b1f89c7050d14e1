"""Control planes for development, demonstrations and tests.  Never a part of a production deployment."""
