-- Which trees of a partner's record of planting are credited to which order. Together they never exceed the record.
CREATE TABLE planting_claim (
  partner text NOT NULL,
  -- The partner's name for the record.
  reference text NOT NULL,
  order_id integer NOT NULL REFERENCES planting_order,
  trees bigint NOT NULL CONSTRAINT planting_claim_trees CHECK (trees >= 1),
  PRIMARY KEY (partner, reference, order_id)
);

CREATE INDEX planting_claim_order ON planting_claim (order_id);
