:
ùÿÿÿÿÿÿÿÿBscalar