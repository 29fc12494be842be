"""What a simulation says: values, caveats, and who held which partition when."""
