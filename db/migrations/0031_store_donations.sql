-- Of a store's donations: for whom and for which order. Null in those of organizations.
ALTER TABLE donation
  ADD COLUMN customer_name text,
  ADD COLUMN customer_email text,
  ADD COLUMN customer_id text,
  ADD COLUMN order_id text;

CREATE INDEX donation_customer_email ON donation
  (account_id, mode, lower(customer_email), created_at, id) WHERE customer_email IS NOT NULL;
CREATE INDEX donation_customer_id ON donation
  (account_id, mode, customer_id, created_at, id) WHERE customer_id IS NOT NULL;
CREATE INDEX donation_customer_name ON donation
  USING gin (account_id, customer_name gin_trgm_ops) WHERE customer_name IS NOT NULL;
CREATE INDEX donation_order ON donation
  (account_id, mode, ltrim(order_id, '#'), created_at, id) WHERE order_id IS NOT NULL;
-- A reversal takes the newest that stand.
CREATE INDEX donation_standing ON donation (account_id, mode, created_at, id) WHERE refunded_at IS NULL;

-- The books name the donation that was paid for.
ALTER TABLE balance_entry ADD COLUMN donation_id uuid REFERENCES donation;
