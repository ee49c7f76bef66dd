-- The settings of a store account and its prepaid balance. Every write of a store locks this row before it decides.
CREATE TABLE store (
  account_id uuid PRIMARY KEY REFERENCES account,
  -- Normalized; clients send it in the header shop_name.
  domain text COLLATE "C" NOT NULL CONSTRAINT store_domain UNIQUE,
  -- Clients may send it in the header user_id instead.
  user_id text COLLATE "C" NOT NULL CONSTRAINT store_user_id UNIQUE,
  -- The organization that owns the store, if known.
  organization_id uuid REFERENCES account,
  tree_price_cents bigint NOT NULL
    CONSTRAINT store_tree_price CHECK (tree_price_cents BETWEEN 0 AND 99999999999),
  bottle_price_cents bigint NOT NULL
    CONSTRAINT store_bottle_price CHECK (bottle_price_cents BETWEEN 0 AND 99999999999),
  tree_planting boolean NOT NULL DEFAULT true,
  plastic_removal boolean NOT NULL DEFAULT true,
  donations boolean NOT NULL DEFAULT true,
  -- While set, the store's keys are rejected.
  uninstalled_at timestamptz,
  balance_cents bigint NOT NULL DEFAULT 0
    CONSTRAINT store_balance_safe CHECK (balance_cents BETWEEN 0 AND 9007199254740991),
  -- Low-balance threshold.
  low_balance_cents bigint NOT NULL CONSTRAINT store_balance_low CHECK (low_balance_cents >= 0),
  -- When a write was first rejected because the balance did not cover it. Null again once the balance rises.
  depleted_at timestamptz,
  -- The latest created_at of the store's records and refunds. Each new one is later, so the lists' pages are in the order of
  -- commits.
  last_record_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- The prepaid ledger. The ids of one store ascend in the order in which its balance changed.
CREATE TABLE balance_entry (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  kind text NOT NULL CONSTRAINT balance_entry_kind CHECK (
    kind IN ('topup', 'adjustment', 'tree', 'bottle', 'donation', 'refund')
  ),
  -- Negative for what was spent.
  amount_cents bigint NOT NULL CONSTRAINT balance_entry_amount CHECK (amount_cents <> 0),
  -- The balance after this entry.
  balance_cents bigint NOT NULL CONSTRAINT balance_entry_balance CHECK (balance_cents >= 0),
  -- Number of trees or bottles.
  quantity bigint,
  -- No reference: the statement that inserts the entry inserts the registration. Checking it would slow down each.
  registration_id uuid,
  donation_id uuid REFERENCES donation,
  -- The operator's reference of a top-up or an adjustment; makes repeating it safe.
  reference text COLLATE "C",
  -- What an operator wrote about the entry, or the charity's name. That of a refund is the reason of the refunds that were
  -- recorded at the entry's time, which an erasure deletes: entries cannot be changed.
  note text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL,
  CONSTRAINT balance_entry_topup CHECK (kind <> 'topup' OR amount_cents > 0)
);

CREATE INDEX balance_entry_listing ON balance_entry (account_id, id);
CREATE UNIQUE INDEX balance_entry_reference ON balance_entry (account_id, reference) WHERE reference IS NOT NULL;

CREATE TRIGGER balance_entry_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON balance_entry
  FOR EACH STATEMENT EXECUTE FUNCTION reject_change('balance entries');
