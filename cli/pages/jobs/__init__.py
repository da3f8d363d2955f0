"""The pages of `jobs`: their content and its order."""
