-- What a store account has beside its keys and records.
CREATE TABLE store (
  account_id uuid PRIMARY KEY REFERENCES account,
  -- As clients name it, in its normal form.
  domain text NOT NULL CONSTRAINT store_domain UNIQUE,
  -- The other way to name it.
  user_id text NOT NULL CONSTRAINT store_user_id UNIQUE,
  -- Whose store it is, where that is known.
  organization_id uuid REFERENCES account,
  tree_price_cents bigint NOT NULL
    CONSTRAINT store_tree_price CHECK (tree_price_cents BETWEEN 0 AND 99999999999),
  bottle_price_cents bigint NOT NULL
    CONSTRAINT store_bottle_price CHECK (bottle_price_cents BETWEEN 0 AND 99999999999),
  -- A balance below it is called low.
  low_balance_cents bigint NOT NULL DEFAULT 0 CONSTRAINT store_low_balance CHECK (low_balance_cents >= 0),
  tree_planting boolean NOT NULL DEFAULT true,
  plastic_removal boolean NOT NULL DEFAULT true,
  donations boolean NOT NULL DEFAULT true,
  -- While set, its keys open nothing.
  uninstalled_at timestamptz
);

-- One row a store, apart from the store's settings: every write of a store locks it, then decides.
CREATE TABLE store_balance (
  account_id uuid PRIMARY KEY REFERENCES account,
  balance_cents bigint NOT NULL DEFAULT 0
    CONSTRAINT store_balance_safe CHECK (balance_cents BETWEEN 0 AND 9007199254740991)
) WITH (fillfactor = 50);

-- The store's prepaid books. Ids of one store ascend in the order in which its balance changed.
CREATE TABLE balance_entry (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  kind text NOT NULL CONSTRAINT balance_entry_kind CHECK (
    kind IN ('topup', 'correction', 'tree', 'bottle', 'donation', 'refund')
  ),
  -- Below 0 for what was spent.
  amount_cents bigint NOT NULL CONSTRAINT balance_entry_amount CHECK (amount_cents <> 0),
  -- The balance after it.
  balance_cents bigint NOT NULL CONSTRAINT balance_entry_balance CHECK (balance_cents >= 0),
  -- Trees or bottles.
  quantity bigint,
  registration_id uuid REFERENCES registration,
  donation_id uuid REFERENCES donation,
  -- The operator's name for a top-up: the same one twice is one top-up.
  reference text,
  note text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL
);

CREATE INDEX balance_entry_listing ON balance_entry (account_id, id);
CREATE UNIQUE INDEX balance_entry_reference ON balance_entry (account_id, reference) WHERE reference IS NOT NULL;

CREATE FUNCTION refuse_balance_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'balance entries are never changed: add another' USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER balance_entry_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON balance_entry
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_balance_change();

-- The first answer to a write with an Idempotency-Key; only answers of success are kept.
CREATE TABLE idempotent_answer (
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL CONSTRAINT idempotent_answer_mode CHECK (mode IN ('live', 'test')),
  operation text NOT NULL CONSTRAINT idempotent_answer_operation CHECK (
    operation IN ('plant', 'plastic', 'donate', 'refund')
  ),
  key text NOT NULL,
  -- SHA-256 of what was asked for.
  request_hash bytea NOT NULL CONSTRAINT idempotent_answer_hash CHECK (length(request_hash) = 32),
  -- The body, byte for byte.
  answer text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, mode, operation, key)
);
