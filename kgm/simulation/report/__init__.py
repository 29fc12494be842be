"""What a simulation predicts: the prediction as values (`prediction`), and its limits in words (`caveats`)."""
