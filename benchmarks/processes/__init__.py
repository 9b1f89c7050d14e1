"""Entry points by which benchmarks start processes of Tollbar: with measurements inside, or without Events."""
