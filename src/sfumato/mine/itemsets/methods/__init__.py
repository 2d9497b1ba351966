"""The algorithms of `frequent_itemsets`, in memory and pass by pass."""
