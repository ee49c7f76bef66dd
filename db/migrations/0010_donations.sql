-- Which of the charity providers answers an organization's searches and checks its donations.
ALTER TABLE account
  ADD COLUMN charity_provider text NOT NULL DEFAULT 'catalogue'
  CONSTRAINT account_charity_provider CHECK (charity_provider IN ('catalogue', 'everyorg', 'change', 'pledge'));

-- A charity donation on record, in US cents. It makes no usage facts.
CREATE TABLE donation (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL CONSTRAINT donation_mode CHECK (mode IN ('live', 'test')),
  -- At most 2^53 - 1, so that JSON carries it exactly.
  amount_cents bigint NOT NULL CONSTRAINT donation_amount_cents CHECK (amount_cents BETWEEN 1 AND 9007199254740991),
  -- Nine digits; null where the provider knows none.
  ein text CONSTRAINT donation_ein CHECK (ein ~ '^\d{9}$'),
  -- The charity's id at the provider that it was checked with.
  nonprofit_id text NOT NULL,
  charity_provider text NOT NULL,
  charity_name text NOT NULL,
  created_at timestamptz NOT NULL,
  idempotency_key text,
  attribution text NOT NULL DEFAULT '',
  metadata jsonb NOT NULL DEFAULT '{}',
  refunded_at timestamptz
);

-- Decides which of several concurrent requests with one key creates the record.
CREATE UNIQUE INDEX donation_idempotency_key
  ON donation (account_id, mode, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX donation_listing ON donation (account_id, mode, created_at, id);
CREATE INDEX donation_attribution
  ON donation (account_id, mode, attribution, created_at, id) WHERE attribution <> '';

-- What a client asked for, until its charity is checked: the row becomes a donation or goes. Its id is the donation's.
CREATE TABLE donation_request (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  idempotency_key text,
  details jsonb NOT NULL,
  created_at timestamptz NOT NULL
);

-- Concurrent requests with one key wait for one and the same check.
CREATE UNIQUE INDEX donation_request_idempotency_key
  ON donation_request (account_id, mode, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX donation_request_age ON donation_request (created_at);

-- Donations that are not refunded, kept in their own transactions. The period is 'all' or a month of UTC, YYYY-MM.
CREATE TABLE donation_total (
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  period text NOT NULL CONSTRAINT donation_total_period CHECK (period = 'all' OR period ~ '^\d{4}-\d{2}$'),
  count bigint NOT NULL CONSTRAINT donation_total_count CHECK (count >= 0),
  amount_cents bigint NOT NULL
    CONSTRAINT donation_total_safe CHECK (amount_cents BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (account_id, mode, period)
) WITH (fillfactor = 50);

-- A donation is refunded whole and once.
CREATE TABLE donation_refund (
  donation_id uuid PRIMARY KEY REFERENCES donation,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  reason text,
  idempotency_key text,
  metadata jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL
);

CREATE UNIQUE INDEX donation_refund_idempotency_key
  ON donation_refund (account_id, mode, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The donation items that were provisioned for an account, once for each mode.
CREATE TABLE donation_subscription (
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  processor text NOT NULL CONSTRAINT donation_subscription_processor CHECK (processor IN ('stripe', 'ledger')),
  -- The processor's subscription that carries the items; null for the built-in ledger, which keeps none.
  subscription_id text,
  -- Null until the processor has the items.
  active_since timestamptz,
  -- When the processor was last seen to have them.
  verified_at timestamptz,
  -- Counts the attempts at the processor; each has an idempotency key of its own.
  attempt integer NOT NULL DEFAULT 0,
  -- Until then another call may be provisioning.
  leased_until timestamptz,
  PRIMARY KEY (account_id, mode)
);
