"""Mining of data larger than memory: frequent itemsets, similar documents."""
