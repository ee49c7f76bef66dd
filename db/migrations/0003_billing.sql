-- What belongs to this database as a whole. It has one row, which this migration creates.
CREATE TABLE deployment (
  -- Its first characters are the deployment's name in Temporal. The first program to start changes it, so that copies of
  -- an empty database differ.
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  -- Always true, so that there is at most one row.
  is_only boolean NOT NULL DEFAULT true CONSTRAINT deployment_only UNIQUE CHECK (is_only),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- The name of this installation among several behind one address. It is in keys and public paths, so it never changes once
  -- there are accounts.
  cell text CONSTRAINT deployment_cell CHECK (cell ~ '^[a-z][a-z0-9]{0,7}$'),
  -- The secret part of each hash of an idempotency key. The reader may not see it, so nobody can guess keys, which
  -- clients build from names or order ids, by their hashes. It is data, so that a restore forgets no key.
  idempotency_secret bytea NOT NULL DEFAULT sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
  ) CONSTRAINT deployment_idempotency_secret CHECK (length(idempotency_secret) = 32),
  -- Who bills live usage, and whose Stripe account that is. NULL until a worker has started.
  processor text CONSTRAINT deployment_processor CHECK (processor IN ('stripe', 'ledger')),
  stripe_account_id text,
  stripe_livemode boolean,
  -- The Stripe account, in live mode, of the deployment from which this one was copied. This one never bills through it.
  original_stripe_account_id text,
  -- When this copy became a deployment of its own. What Stripe has from before is the original's usage.
  separated_at timestamptz,
  -- Which server, history and database hold this row, as text. It differs after a restore, a promotion or a copy.
  server text,
  -- While it is held, no usage is sealed or sent.
  held_at timestamptz,
  hold_reason text,
  held_by text,
  -- The `server` on which the hold began. Another one may have released it and sent usage.
  held_on text,
  -- Usage facts up to this one, which were not sealed when a restored database resumed, may have been sent in the history
  -- that it has lost. The processor is asked before they are sent.
  doubted_fact_id bigint,
  -- When the hold after that restore began. The lost history has sent nothing later.
  doubted_until timestamptz,
  CONSTRAINT deployment_doubt CHECK (num_nulls(doubted_fact_id, doubted_until) IN (0, 2)),
  CONSTRAINT deployment_hold CHECK (num_nulls(held_at, hold_reason, held_by, held_on) IN (0, 4)),
  CONSTRAINT deployment_account CHECK (
    (processor IS NOT DISTINCT FROM 'stripe') = (stripe_account_id IS NOT NULL AND stripe_livemode IS NOT NULL)
  )
);

INSERT INTO deployment DEFAULT VALUES;

-- When workers last looked for work of each kind. Each has a row after its first pass.
CREATE TABLE perpetual_work (
  kind text COLLATE "C" PRIMARY KEY
    CONSTRAINT perpetual_work_kind CHECK (kind IN ('usage-sender', 'webhook-sender', 'dispatcher')),
  last_pass_at timestamptz NOT NULL
);

-- What is sent to the processor: the sum of usage facts of one account, mode and kind in one second. An event without facts
-- belongs to a difference: the units of a minute by which the processor's sum is too low, or too high if they are negative, and
-- which no event explains. Once it is decided, a delivered event of the opposite units stands beside it, so that our sum equals the processor's.
CREATE TABLE meter_event (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  -- Unix seconds.
  second bigint NOT NULL,
  -- Counts the sealings of that second, not the attempts.
  sequence integer NOT NULL,
  quantity bigint NOT NULL,
  -- Increased when the processor turns out not to have the usage: it is sent again under an identifier that was never used.
  generation integer NOT NULL DEFAULT 0,
  identifier text COLLATE "C" NOT NULL CONSTRAINT meter_event_identifier UNIQUE,
  processor text COLLATE "C" NOT NULL CONSTRAINT meter_event_processor CHECK (processor IN ('stripe', 'ledger')),
  -- The processor's customer to which it is sent. A later change of the account must not bill another customer.
  customer_id text COLLATE "C",
  -- Part of the idempotency key; increased after a 500 that is saved under the key.
  key_generation integer NOT NULL DEFAULT 0,
  state text COLLATE "C" NOT NULL
    CONSTRAINT meter_event_state CHECK (state IN ('pending', 'delivered', 'failed', 'closed')),
  -- Why it has failed.
  failure text COLLATE "C"
    CONSTRAINT meter_event_failure CHECK (failure IN ('refused', 'too_old', 'unclear', 'waits_for_usage', 'difference')),
  -- The event of the usage that a refund takes back, as long as the processor does not have that usage.
  waits_for bigint REFERENCES meter_event,
  attempts integer NOT NULL DEFAULT 0,
  -- NULL until an attempt under the present identifier begins.
  first_attempt_at timestamptz,
  -- Until then an attempt may be in progress, even if its process has ended.
  leased_until timestamptz,
  -- When it is attempted again. NULL while it is leased.
  retry_at timestamptz,
  -- Whether the processor may have it although no response says so: an attempt ended without one, or the database has lost
  -- its record.
  may_be_delivered boolean NOT NULL DEFAULT false,
  -- Since then the identifier is not sent again; the processor's sums decide once they show everything from before.
  asking_since timestamptz,
  -- What the last attempt, question or operator said about it. Nothing depends on it.
  last_error text,
  -- Whether it was delivered and no invoice has it, mostly because that was finalized before. A comparison with the invoices
  -- finds that.
  is_late boolean NOT NULL DEFAULT false,
  -- The document at the processor with which an operator billed or returned the usage; 'none' if it is never billed.
  document_kind text CONSTRAINT meter_event_document_kind CHECK (document_kind IN ('invoice_item', 'credit_note', 'none')),
  document_reference text,
  sealed_at timestamptz NOT NULL,
  settled_at timestamptz,
  CONSTRAINT meter_event_failed CHECK ((state = 'failed') = (failure IS NOT NULL)),
  CONSTRAINT meter_event_waiting CHECK (
    (failure IS NOT DISTINCT FROM 'waits_for_usage') = (waits_for IS NOT NULL)
  ),
  CONSTRAINT meter_event_document CHECK (
    (coalesce(document_kind, 'none') = 'none') = (document_reference IS NULL)
  ),
  CONSTRAINT meter_event_sealing UNIQUE (account_id, mode, kind, second, sequence)
) WITH (fillfactor = 80);

-- At most one event of a stream is being sent: one call in flight.
CREATE UNIQUE INDEX meter_event_sending
  ON meter_event (account_id, mode, kind) WHERE state = 'pending' AND first_attempt_at IS NOT NULL AND asking_since IS NULL;
-- First in, first out.
CREATE INDEX meter_event_pending ON meter_event (account_id, mode, kind, id) WHERE state = 'pending';
CREATE INDEX meter_event_asking
  ON meter_event (account_id, mode, kind, retry_at) WHERE state = 'pending' AND asking_since IS NOT NULL;
-- For the sums of a processor's customer, which may have belonged to several accounts.
CREATE INDEX meter_event_customer ON meter_event (customer_id, kind, second) WHERE customer_id IS NOT NULL;
-- For the events of all accounts in a span. They are sealed nearly in the order of their seconds, so the blocks of a
-- span are few; a B-tree would cost each event another entry.
CREATE INDEX meter_event_second ON meter_event USING brin (second) WITH (autosummarize = on);
CREATE INDEX meter_event_failed ON meter_event (account_id, id) WHERE state = 'failed';
CREATE INDEX meter_event_waits_for ON meter_event (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX meter_event_late ON meter_event (account_id, id) WHERE is_late;

-- At most one open difference of a customer's minute.
CREATE UNIQUE INDEX meter_event_difference
  ON meter_event (customer_id, kind, (second - second % 60)) WHERE failure = 'difference';

-- The outbox of billing: written in the transaction of the registrations or refund.
-- The registrations of one stream and second in one statement share a fact, so sealing does not rewrite a row for each of
-- them. Only meter_event_id ever changes.
CREATE TABLE usage_fact (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- No reference, like that of the registration.
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  -- The statement that recorded the registrations which the fact counts, or of which it takes units back. With the stream
  -- and the second it is the key that they share.
  -- A CHECK: with NOT NULL, the planner could leave out the second condition of usage_fact_refunded_batch.
  usage_batch bigint CONSTRAINT usage_fact_batch_known CHECK (usage_batch IS NOT NULL),
  refund_id uuid REFERENCES refund,
  -- At most 15 digits, which is Stripe's limit. A larger count makes several facts.
  quantity bigint NOT NULL
    CONSTRAINT usage_fact_quantity CHECK (quantity <> 0 AND abs(quantity) <= 999999999999999),
  -- How many registrations it counts; 1 of a refund. Bulk work reads from it how much clients record.
  record_count integer NOT NULL DEFAULT 1,
  -- Unix seconds of the registrations, also for a refund.
  second bigint NOT NULL,
  meter_event_id bigint REFERENCES meter_event
) WITH (
  -- Sealed facts leave the partial index. Without frequent vacuums, every search for unsealed facts would step over them.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05
);

CREATE INDEX usage_fact_unsealed ON usage_fact (account_id, mode, kind, second, id) WHERE meter_event_id IS NULL;
-- Apart, because a batch may have thousands of refunds, and each of them looks for the fact of its registration.
CREATE INDEX usage_fact_batch ON usage_fact (usage_batch) WHERE refund_id IS NULL;
-- With the first condition only, which every look-up by refund_id implies, the planner reads all of this index for the facts
-- of one refund, as long as its statistics know of no refunds.
CREATE INDEX usage_fact_refunded_batch ON usage_fact (usage_batch)
  WHERE refund_id IS NOT NULL AND usage_batch IS NOT NULL;
CREATE INDEX usage_fact_refund ON usage_fact (refund_id) WHERE refund_id IS NOT NULL;
CREATE INDEX usage_fact_event ON usage_fact (meter_event_id) WHERE meter_event_id IS NOT NULL;

-- The billing periods that Stripe has returned for an account's usage of a kind. The latest is the current one.
CREATE TABLE billing_period (
  account_id uuid NOT NULL REFERENCES account,
  kind text COLLATE "C" NOT NULL,
  -- The subscription that the period was read from.
  subscription_id text COLLATE "C" NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL CONSTRAINT billing_period_span CHECK (starts_at < ends_at),
  read_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, kind, subscription_id, starts_at)
);

-- What Stripe last returned of an account's subscription. It counts only while the account has that subscription.
CREATE TABLE stripe_subscription (
  account_id uuid PRIMARY KEY REFERENCES account,
  subscription_id text NOT NULL,
  -- `SubscriptionState` in modules/billing/subscriptions.rules.ts, without its customer and its periods, which are in billing_period.
  state jsonb NOT NULL,
  read_at timestamptz NOT NULL
);

-- A customer of Stripe whose invoices were compared with what was delivered.
CREATE TABLE stripe_customer (
  customer_id text COLLATE "C" PRIMARY KEY,
  read_at timestamptz NOT NULL
);

-- The usage of a Stripe customer in a span, and the invoice that has it, or the reason why none has it. A row for each
-- finalized line, and one for each span of usage with a problem.
CREATE TABLE invoiced_usage (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer_id text COLLATE "C" NOT NULL REFERENCES stripe_customer,
  kind text COLLATE "C" NOT NULL,
  -- The span, half-open, in unix seconds.
  start_second bigint NOT NULL,
  end_second bigint NOT NULL,
  -- The accounts whose usage it is.
  account_ids uuid[] NOT NULL,
  subscription_id text,
  -- The subscription that bills the same usage as well.
  other_subscription_id text,
  invoice_id text,
  invoice_number text,
  -- The units on the invoice.
  quantity bigint,
  delivered bigint NOT NULL,
  -- Null if the invoice has exactly what was delivered. INVOICE_PROBLEMS in modules/billing/invoices/invoices.rules.ts
  -- has the names.
  problem text COLLATE "C",
  -- The units on no invoice, or on two; negative if the invoice has too many.
  units bigint NOT NULL,
  CONSTRAINT invoiced_usage_span CHECK (start_second < end_second)
);

CREATE INDEX invoiced_usage_customer ON invoiced_usage (customer_id, end_second);
CREATE INDEX invoiced_usage_account ON invoiced_usage USING gin (account_ids);
CREATE INDEX invoiced_usage_problem ON invoiced_usage (problem) WHERE problem IS NOT NULL;

-- What webhooks of the processor have announced. The endpoint only stores them; a worker processes and deletes them. Only ids
-- and times are stored: what happened is read from the processor, which also settles the order of events.
CREATE TABLE processor_event (
  id text COLLATE "C" PRIMARY KEY,
  type text NOT NULL,
  -- What it is about, such as a subscription or a customer.
  object_id text,
  received_at timestamptz NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  -- Set before an attempt, so that a process that dies delays the next one only.
  next_attempt_at timestamptz NOT NULL
);

CREATE INDEX processor_event_due ON processor_event (next_attempt_at);

-- A comparison of all of the processor's sums with what was delivered. The differences that it finds are in meter_event.
CREATE TABLE reconciliation (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  started_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  -- How many streams were compared.
  streams integer NOT NULL,
  -- Why some streams could not be read that may be readable later; null if all could.
  error text
);

CREATE INDEX reconciliation_started ON reconciliation (started_at);
