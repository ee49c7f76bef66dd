-- The donation that each idempotency key of a refund was given with first, also where the donation was refunded already:
-- a key that a client has an answer to must never refund anything else.
CREATE TABLE donation_refund_key (
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  idempotency_key text NOT NULL,
  donation_id uuid NOT NULL REFERENCES donation,
  PRIMARY KEY (account_id, mode, idempotency_key)
);

INSERT INTO donation_refund_key (account_id, mode, idempotency_key, donation_id)
SELECT account_id, mode, idempotency_key, donation_id
FROM donation_refund
WHERE idempotency_key IS NOT NULL;
