CREATE EXTENSION btree_gin;

CREATE EXTENSION pg_trgm;

CREATE SEQUENCE tree_order_id AS bigint;

CREATE SEQUENCE usage_batch AS bigint;

CREATE TABLE account (
  id uuid NOT NULL,
  type text NOT NULL,
  name text NOT NULL,
  fractional_counting boolean NOT NULL DEFAULT false,
  billing_day smallint NOT NULL DEFAULT 1,
  stripe_customer_id text COLLATE "C",
  stripe_customer_ids text[] COLLATE "C" NOT NULL DEFAULT '{}'::text[],
  stripe_subscription_id text COLLATE "C",
  charity_provider text NOT NULL DEFAULT 'catalogue'::text,
  subscription_policy text NOT NULL DEFAULT 'alert'::text,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT account_pkey PRIMARY KEY (id),
  CONSTRAINT account_billing_day CHECK (billing_day >= 1 AND billing_day <= 31),
  CONSTRAINT account_charity_provider CHECK (charity_provider = ANY (ARRAY['catalogue'::text, 'everyorg'::text, 'change'::text, 'pledge'::text])),
  CONSTRAINT account_name CHECK (length(name) >= 1 AND length(name) <= 1000),
  CONSTRAINT account_subscription_policy CHECK (subscription_policy = ANY (ARRAY['alert'::text, 'suspend'::text, 'keep'::text])),
  CONSTRAINT account_type CHECK (type = ANY (ARRAY['organization'::text, 'store'::text]))
) WITH ();

CREATE TABLE account_limit (
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  count_per_day bigint NOT NULL,
  changed_at timestamp with time zone NOT NULL DEFAULT now(),
  counted_day date,
  counted_units bigint,
  CONSTRAINT account_limit_pkey PRIMARY KEY (account_id, mode),
  CONSTRAINT account_limit_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT account_limit_count_per_day CHECK (count_per_day >= 1 AND count_per_day <= '9007199254740991'::bigint),
  CONSTRAINT account_limit_counted_units CHECK (counted_units >= 0 AND counted_units <= '9007199254740991'::bigint),
  CONSTRAINT account_limit_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text]))
) WITH (fillfactor=50);

CREATE TABLE api_key (
  id uuid NOT NULL,
  account_id uuid NOT NULL,
  mode text NOT NULL,
  hash bytea NOT NULL,
  hint text NOT NULL,
  name text NOT NULL,
  scope text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  CONSTRAINT api_key_hash UNIQUE (hash),
  CONSTRAINT api_key_pkey PRIMARY KEY (id),
  CONSTRAINT api_key_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT api_key_hash_check CHECK (length(hash) = 32),
  CONSTRAINT api_key_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text])),
  CONSTRAINT api_key_name CHECK (length(name) >= 1 AND length(name) <= 100),
  CONSTRAINT api_key_scope CHECK (scope = ANY (ARRAY['read'::text, 'write'::text]))
) WITH ();

CREATE TABLE audit_entry (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  created_at timestamp with time zone NOT NULL,
  action text COLLATE "C" NOT NULL,
  actor text NOT NULL,
  operator text,
  account_id uuid,
  subject text,
  reason text,
  details jsonb NOT NULL,
  CONSTRAINT audit_entry_pkey PRIMARY KEY (id),
  CONSTRAINT audit_entry_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT audit_entry_actor CHECK (actor = ANY (ARRAY['operator'::text, 'platform'::text, 'service'::text])),
  CONSTRAINT audit_entry_operator CHECK ((actor = 'operator'::text) = (operator IS NOT NULL))
) WITH ();

CREATE TABLE balance_entry (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  account_id uuid NOT NULL,
  kind text NOT NULL,
  amount_cents bigint NOT NULL,
  balance_cents bigint NOT NULL,
  quantity bigint,
  registration_id uuid,
  donation_id uuid,
  reference text COLLATE "C",
  note text NOT NULL DEFAULT ''::text,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT balance_entry_pkey PRIMARY KEY (id),
  CONSTRAINT balance_entry_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT balance_entry_donation_id_fkey FOREIGN KEY (donation_id) REFERENCES donation(id),
  CONSTRAINT balance_entry_amount CHECK (amount_cents <> 0),
  CONSTRAINT balance_entry_balance CHECK (balance_cents >= 0),
  CONSTRAINT balance_entry_kind CHECK (kind = ANY (ARRAY['topup'::text, 'adjustment'::text, 'tree'::text, 'bottle'::text, 'donation'::text, 'refund'::text])),
  CONSTRAINT balance_entry_topup CHECK (kind <> 'topup'::text OR amount_cents > 0)
) WITH ();

CREATE TABLE billing_period (
  account_id uuid NOT NULL,
  kind text COLLATE "C" NOT NULL,
  subscription_id text COLLATE "C" NOT NULL,
  starts_at timestamp with time zone NOT NULL,
  ends_at timestamp with time zone NOT NULL,
  read_at timestamp with time zone NOT NULL,
  CONSTRAINT billing_period_pkey PRIMARY KEY (account_id, kind, subscription_id, starts_at),
  CONSTRAINT billing_period_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT billing_period_span CHECK (starts_at < ends_at)
) WITH ();

CREATE TABLE certificate (
  token text COLLATE "C" NOT NULL,
  account_id uuid NOT NULL,
  record_id uuid NOT NULL,
  further_record_ids uuid[] NOT NULL DEFAULT '{}'::uuid[],
  is_of_order boolean NOT NULL,
  created_at timestamp with time zone NOT NULL,
  revoked_at timestamp with time zone,
  CONSTRAINT certificate_pkey PRIMARY KEY (token),
  CONSTRAINT certificate_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT certificate_token CHECK (token ~ '^([a-z][a-z0-9]{0,7}_)?[0-9a-f]{32}$'::text)
) WITH ();

CREATE TABLE charity (
  ein text COLLATE "C" NOT NULL,
  name text NOT NULL,
  sort_name text NOT NULL DEFAULT ''::text,
  known_as text NOT NULL DEFAULT ''::text,
  website text NOT NULL DEFAULT ''::text,
  city text NOT NULL DEFAULT ''::text,
  state text NOT NULL DEFAULT ''::text,
  ntee text NOT NULL DEFAULT ''::text,
  affiliation text NOT NULL DEFAULT ''::text,
  subsection text NOT NULL,
  deductibility text NOT NULL,
  income_code smallint NOT NULL DEFAULT 0,
  extracted_on date,
  listed boolean NOT NULL DEFAULT true,
  eligible boolean NOT NULL GENERATED ALWAYS AS ((listed AND (subsection = '03'::text) AND (deductibility = '1'::text))) STORED,
  search_text text NOT NULL GENERATED ALWAYS AS (regexp_replace(lower(regexp_replace(replace(((((((' '::text || sort_name) || ' | '::text) || known_as) || ' | '::text) || name) || ' | '::text), '&'::text, ' and '::text), '[''.]'::text, ''::text, 'g'::text)), '[^a-z0-9|]+'::text, ' '::text, 'g'::text)) STORED,
  CONSTRAINT charity_pkey PRIMARY KEY (ein),
  CONSTRAINT charity_ein CHECK (ein ~ '^\d{9}$'::text),
  CONSTRAINT charity_income_code CHECK (income_code >= 0 AND income_code <= 9)
) WITH (fillfactor=90);

CREATE TABLE dashboard (
  slug text COLLATE "C" NOT NULL,
  account_id uuid NOT NULL,
  is_alias boolean NOT NULL DEFAULT false,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT dashboard_pkey PRIMARY KEY (slug),
  CONSTRAINT dashboard_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT dashboard_slug CHECK (length(slug) >= 1 AND length(slug) <= 200)
) WITH ();

CREATE TABLE deployment (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  is_only boolean NOT NULL DEFAULT true,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  cell text,
  idempotency_secret bytea NOT NULL DEFAULT sha256(((uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) || uuid_send(gen_random_uuid()))),
  processor text,
  stripe_account_id text,
  stripe_livemode boolean,
  original_stripe_account_id text,
  separated_at timestamp with time zone,
  server text,
  held_at timestamp with time zone,
  hold_reason text,
  held_by text,
  held_on text,
  doubted_fact_id bigint,
  doubted_until timestamp with time zone,
  CONSTRAINT deployment_only UNIQUE (is_only),
  CONSTRAINT deployment_pkey PRIMARY KEY (id),
  CONSTRAINT deployment_account CHECK ((NOT processor IS DISTINCT FROM 'stripe'::text) = (stripe_account_id IS NOT NULL AND stripe_livemode IS NOT NULL)),
  CONSTRAINT deployment_cell CHECK (cell ~ '^[a-z][a-z0-9]{0,7}$'::text),
  CONSTRAINT deployment_doubt CHECK (num_nulls(doubted_fact_id, doubted_until) = ANY (ARRAY[0, 2])),
  CONSTRAINT deployment_hold CHECK (num_nulls(held_at, hold_reason, held_by, held_on) = ANY (ARRAY[0, 4])),
  CONSTRAINT deployment_idempotency_secret CHECK (length(idempotency_secret) = 32),
  CONSTRAINT deployment_is_only_check CHECK (is_only),
  CONSTRAINT deployment_processor CHECK (processor = ANY (ARRAY['stripe'::text, 'ledger'::text]))
) WITH ();

CREATE TABLE donation (
  id uuid NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  amount_cents bigint NOT NULL,
  ein text,
  nonprofit_id text NOT NULL,
  charity_provider text NOT NULL,
  charity_name text NOT NULL,
  confirmed_name text,
  created_at timestamp with time zone NOT NULL,
  idempotency_key text,
  attribution text NOT NULL DEFAULT ''::text,
  metadata jsonb NOT NULL DEFAULT '{}'::jsonb,
  refunded boolean NOT NULL DEFAULT false,
  customer_name text,
  customer_email text,
  customer_id text,
  order_id text,
  imported_id text COLLATE "C",
  CONSTRAINT donation_pkey PRIMARY KEY (id),
  CONSTRAINT donation_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT donation_amount_cents CHECK (amount_cents >= 1 AND amount_cents <= '9007199254740991'::bigint),
  CONSTRAINT donation_ein CHECK (ein ~ '^\d{9}$'::text),
  CONSTRAINT donation_imported_id_length CHECK (length(imported_id) >= 1 AND length(imported_id) <= 64),
  CONSTRAINT donation_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text]))
) WITH ();

CREATE TABLE donation_refund (
  donation_id uuid NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  reason text,
  idempotency_key text,
  metadata jsonb NOT NULL DEFAULT '{}'::jsonb,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT donation_refund_pkey PRIMARY KEY (donation_id),
  CONSTRAINT donation_refund_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT donation_refund_donation_id_fkey FOREIGN KEY (donation_id) REFERENCES donation(id)
) WITH ();

CREATE TABLE donor (
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  count bigint NOT NULL DEFAULT 0,
  amount_cents bigint NOT NULL DEFAULT 0,
  processor text,
  subscription_id text,
  active_since timestamp with time zone,
  verified_at timestamp with time zone,
  CONSTRAINT donor_pkey PRIMARY KEY (account_id, mode),
  CONSTRAINT donor_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT donor_count CHECK (count >= 0),
  CONSTRAINT donor_processor CHECK (processor = ANY (ARRAY['stripe'::text, 'ledger'::text])),
  CONSTRAINT donor_total_safe CHECK (amount_cents >= 0 AND amount_cents <= '9007199254740991'::bigint)
) WITH (fillfactor=50);

CREATE TABLE event (
  id uuid NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at timestamp with time zone NOT NULL,
  data json NOT NULL,
  CONSTRAINT event_pkey PRIMARY KEY (id),
  CONSTRAINT event_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT event_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text]))
) WITH ();

CREATE TABLE evidence_summary (
  mode text COLLATE "C" NOT NULL,
  is_simulated boolean NOT NULL,
  content jsonb NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT evidence_summary_pkey PRIMARY KEY (mode, is_simulated),
  CONSTRAINT evidence_summary_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text]))
) WITH ();

CREATE TABLE idempotency_key (
  key_hash bytea NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  record_id uuid,
  request_hash bytea,
  response_body text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT idempotency_key_pkey PRIMARY KEY (key_hash),
  CONSTRAINT idempotency_key_erased CHECK (response_body IS NOT NULL OR request_hash IS NULL),
  CONSTRAINT idempotency_key_hash CHECK (length(key_hash) = 32),
  CONSTRAINT idempotency_key_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text])),
  CONSTRAINT idempotency_key_operation CHECK (operation = ANY (ARRAY['plant'::text, 'plastic'::text, 'donate'::text, 'refund'::text, 'topup'::text, 'refund_plant'::text, 'refund_plastic'::text, 'refund_donate'::text, 'operator_refund'::text])),
  CONSTRAINT idempotency_key_request_hash CHECK (length(request_hash) = 32)
) WITH ();

CREATE TABLE impact_total (
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  period text COLLATE "C" NOT NULL,
  total bigint NOT NULL,
  CONSTRAINT impact_total_pkey PRIMARY KEY (account_id, mode, kind, period),
  CONSTRAINT impact_total_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT impact_total_period CHECK (period = 'all'::text OR period ~ '^\d{4}-\d{2}$'::text),
  CONSTRAINT impact_total_safe CHECK (total >= 0 AND total <= '9007199254740991'::bigint)
) WITH (fillfactor=50);

CREATE TABLE invoiced_usage (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  customer_id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  start_second bigint NOT NULL,
  end_second bigint NOT NULL,
  account_ids uuid[] NOT NULL,
  subscription_id text,
  other_subscription_id text,
  invoice_id text,
  invoice_number text,
  quantity bigint,
  delivered bigint NOT NULL,
  problem text COLLATE "C",
  units bigint NOT NULL,
  CONSTRAINT invoiced_usage_pkey PRIMARY KEY (id),
  CONSTRAINT invoiced_usage_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES stripe_customer(customer_id),
  CONSTRAINT invoiced_usage_span CHECK (start_second < end_second)
) WITH ();

CREATE TABLE meter_event (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  second bigint NOT NULL,
  sequence integer NOT NULL,
  quantity bigint NOT NULL,
  generation integer NOT NULL DEFAULT 0,
  identifier text COLLATE "C" NOT NULL,
  processor text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C",
  key_generation integer NOT NULL DEFAULT 0,
  state text COLLATE "C" NOT NULL,
  failure text COLLATE "C",
  waits_for bigint,
  attempts integer NOT NULL DEFAULT 0,
  first_attempt_at timestamp with time zone,
  leased_until timestamp with time zone,
  retry_at timestamp with time zone,
  may_be_delivered boolean NOT NULL DEFAULT false,
  asking_since timestamp with time zone,
  last_error text,
  is_late boolean NOT NULL DEFAULT false,
  document_kind text,
  document_reference text,
  sealed_at timestamp with time zone NOT NULL,
  settled_at timestamp with time zone,
  CONSTRAINT meter_event_identifier UNIQUE (identifier),
  CONSTRAINT meter_event_sealing UNIQUE (account_id, mode, kind, second, sequence),
  CONSTRAINT meter_event_pkey PRIMARY KEY (id),
  CONSTRAINT meter_event_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT meter_event_waits_for_fkey FOREIGN KEY (waits_for) REFERENCES meter_event(id),
  CONSTRAINT meter_event_document CHECK ((COALESCE(document_kind, 'none'::text) = 'none'::text) = (document_reference IS NULL)),
  CONSTRAINT meter_event_document_kind CHECK (document_kind = ANY (ARRAY['invoice_item'::text, 'credit_note'::text, 'none'::text])),
  CONSTRAINT meter_event_failed CHECK ((state = 'failed'::text) = (failure IS NOT NULL)),
  CONSTRAINT meter_event_failure CHECK (failure = ANY (ARRAY['refused'::text, 'too_old'::text, 'unclear'::text, 'waits_for_usage'::text, 'difference'::text])),
  CONSTRAINT meter_event_processor CHECK (processor = ANY (ARRAY['stripe'::text, 'ledger'::text])),
  CONSTRAINT meter_event_state CHECK (state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text, 'closed'::text])),
  CONSTRAINT meter_event_waiting CHECK ((NOT failure IS DISTINCT FROM 'waits_for_usage'::text) = (waits_for IS NOT NULL))
) WITH (fillfactor=80);

CREATE TABLE next_planting_order (
  id integer NOT NULL DEFAULT nextval('planting_order_id_seq'::regclass),
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  is_open boolean NOT NULL DEFAULT true,
  CONSTRAINT next_planting_order_pkey PRIMARY KEY (id),
  CONSTRAINT next_planting_order_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT next_planting_order_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text]))
) WITH (vacuum_truncate=false);

CREATE TABLE perpetual_work (
  kind text COLLATE "C" NOT NULL,
  last_pass_at timestamp with time zone NOT NULL,
  CONSTRAINT perpetual_work_pkey PRIMARY KEY (kind),
  CONSTRAINT perpetual_work_kind CHECK (kind = ANY (ARRAY['usage-sender'::text, 'webhook-sender'::text, 'dispatcher'::text]))
) WITH ();

CREATE TABLE planting_claim (
  partner text COLLATE "C" NOT NULL,
  reference text COLLATE "C" NOT NULL,
  order_id integer NOT NULL,
  trees bigint NOT NULL,
  CONSTRAINT planting_claim_pkey PRIMARY KEY (partner, reference, order_id),
  CONSTRAINT planting_claim_order_id_fkey FOREIGN KEY (order_id) REFERENCES planting_order(id),
  CONSTRAINT planting_claim_trees CHECK (trees >= 1)
) WITH ();

CREATE TABLE planting_fact (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  order_id integer NOT NULL,
  stage text COLLATE "C" NOT NULL,
  state text NOT NULL,
  reason text,
  source text NOT NULL,
  occurred_at timestamp with time zone NOT NULL,
  content jsonb NOT NULL,
  digest bytea NOT NULL,
  site_id integer,
  received_at timestamp with time zone NOT NULL,
  withdrawn_at timestamp with time zone,
  withdrawn_by text,
  CONSTRAINT planting_fact_once UNIQUE (order_id, stage, digest),
  CONSTRAINT planting_fact_pkey PRIMARY KEY (id),
  CONSTRAINT planting_fact_order_id_fkey FOREIGN KEY (order_id) REFERENCES planting_order(id),
  CONSTRAINT planting_fact_digest CHECK (length(digest) = 32),
  CONSTRAINT planting_fact_source CHECK (source = ANY (ARRAY['partner'::text, 'callback'::text, 'operator'::text, 'import'::text])),
  CONSTRAINT planting_fact_stage CHECK (stage = ANY (ARRAY['funds_distributed'::text, 'allocated'::text, 'planted'::text, 'planted_and_verified'::text])),
  CONSTRAINT planting_fact_state CHECK (state = ANY (ARRAY['accepted'::text, 'waiting'::text, 'contradiction'::text, 'withdrawn'::text])),
  CONSTRAINT planting_fact_withdrawn CHECK ((state = 'withdrawn'::text) = (withdrawn_at IS NOT NULL AND withdrawn_by IS NOT NULL))
) WITH ();

CREATE TABLE planting_order (
  id integer NOT NULL GENERATED ALWAYS AS IDENTITY,
  public_id text COLLATE "C" NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  partner text NOT NULL,
  partner_name text NOT NULL,
  buyer_name text NOT NULL,
  timeline text NOT NULL,
  tree_count bigint NOT NULL,
  refunded_count bigint NOT NULL DEFAULT 0,
  partner_reference text,
  stage text NOT NULL DEFAULT 'created'::text,
  site_shares jsonb NOT NULL DEFAULT '[]'::jsonb,
  created_at timestamp with time zone NOT NULL,
  planted_at timestamp with time zone,
  verified_at timestamp with time zone,
  polled_at timestamp with time zone NOT NULL DEFAULT '-infinity'::timestamp with time zone,
  finished_at timestamp with time zone,
  imported_from text,
  imported_order_id bigint,
  imported_public_id text,
  imported_key uuid,
  CONSTRAINT planting_order_public_id UNIQUE (public_id),
  CONSTRAINT planting_order_pkey PRIMARY KEY (id),
  CONSTRAINT planting_order_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT planting_order_imported CHECK ((partner = 'imported'::text) = (imported_from IS NOT NULL AND imported_order_id IS NOT NULL AND imported_public_id IS NOT NULL AND imported_key IS NOT NULL)),
  CONSTRAINT planting_order_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text])),
  CONSTRAINT planting_order_refunded_count CHECK (refunded_count >= 0 AND refunded_count <= tree_count),
  CONSTRAINT planting_order_stage CHECK (stage = ANY (ARRAY['created'::text, 'funds_distributed'::text, 'allocated'::text, 'planted'::text, 'planted_and_verified'::text])),
  CONSTRAINT planting_order_timeline CHECK (timeline = ANY (ARRAY['allocations'::text, 'sessions'::text])),
  CONSTRAINT planting_order_tree_count CHECK (tree_count >= 1)
) WITH ();

CREATE TABLE planting_site (
  id integer NOT NULL GENERATED ALWAYS AS IDENTITY,
  partner text COLLATE "C" NOT NULL,
  reference text COLLATE "C" NOT NULL,
  name text NOT NULL,
  subsite_name text NOT NULL,
  organization_name text NOT NULL,
  region text NOT NULL,
  country text NOT NULL,
  forest_type text NOT NULL,
  latitude double precision NOT NULL,
  longitude double precision NOT NULL,
  main_image text NOT NULL,
  CONSTRAINT planting_site_reference UNIQUE (partner, reference),
  CONSTRAINT planting_site_pkey PRIMARY KEY (id),
  CONSTRAINT planting_site_forest_type CHECK (forest_type = ANY (ARRAY['mangrove'::text, 'terrestrial'::text])),
  CONSTRAINT planting_site_latitude CHECK (latitude >= '-90'::integer::double precision AND latitude <= 90::double precision),
  CONSTRAINT planting_site_longitude CHECK (longitude >= '-180'::integer::double precision AND longitude <= 180::double precision)
) WITH ();

CREATE TABLE planting_tally (
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  site_id integer NOT NULL,
  factor_id text COLLATE "C" NOT NULL,
  planted bigint NOT NULL,
  verified bigint NOT NULL,
  CONSTRAINT planting_tally_pkey PRIMARY KEY (account_id, mode, site_id, factor_id),
  CONSTRAINT planting_tally_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT planting_tally_site_id_fkey FOREIGN KEY (site_id) REFERENCES planting_site(id),
  CONSTRAINT planting_tally_planted CHECK (planted >= 0),
  CONSTRAINT planting_tally_verified CHECK (verified >= 0)
) WITH (fillfactor=50);

CREATE TABLE processor_event (
  id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  object_id text,
  received_at timestamp with time zone NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamp with time zone NOT NULL,
  CONSTRAINT processor_event_pkey PRIMARY KEY (id)
) WITH ();

CREATE TABLE profile (
  account_id uuid NOT NULL,
  display_name text,
  color text,
  home_url text,
  story text,
  hidden_sections text[] NOT NULL DEFAULT '{}'::text[],
  shows_carbon boolean NOT NULL DEFAULT false,
  logo bytea,
  logo_hash text COLLATE "C",
  logo_type text,
  logo_width integer,
  logo_height integer,
  CONSTRAINT profile_pkey PRIMARY KEY (account_id),
  CONSTRAINT profile_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT profile_color CHECK (color ~ '^#[0-9a-f]{6}$'::text),
  CONSTRAINT profile_display_name CHECK (length(display_name) >= 1 AND length(display_name) <= 80),
  CONSTRAINT profile_hidden_sections CHECK (hidden_sections <@ ARRAY['bottles'::text, 'donations'::text, 'months'::text, 'sites'::text, 'photos'::text]),
  CONSTRAINT profile_home_url CHECK (home_url ~~ 'https://%'::text AND length(home_url) <= 500),
  CONSTRAINT profile_logo CHECK (length(logo) >= 1 AND length(logo) <= 524288),
  CONSTRAINT profile_logo_complete CHECK (num_nulls(logo, logo_hash, logo_type, logo_width, logo_height) = ANY (ARRAY[0, 5])),
  CONSTRAINT profile_logo_hash CHECK (logo_hash ~ '^([a-z][a-z0-9]{0,7}_)?[0-9a-f]{64}$'::text),
  CONSTRAINT profile_logo_type CHECK (logo_type = ANY (ARRAY['png'::text, 'jpeg'::text, 'webp'::text])),
  CONSTRAINT profile_story CHECK (length(story) >= 1 AND length(story) <= 1200)
) WITH ();

CREATE UNLOGGED TABLE rate_limit (
  bucket text COLLATE "C" NOT NULL,
  permitted_at timestamp with time zone[] NOT NULL,
  CONSTRAINT rate_limit_pkey PRIMARY KEY (bucket)
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0.01);

CREATE TABLE reconciliation (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  started_at timestamp with time zone NOT NULL,
  ended_at timestamp with time zone NOT NULL,
  streams integer NOT NULL,
  error text,
  CONSTRAINT reconciliation_pkey PRIMARY KEY (id)
) WITH ();

CREATE TABLE refund (
  id uuid NOT NULL,
  registration_id uuid NOT NULL,
  account_id uuid NOT NULL,
  count bigint NOT NULL,
  reason text,
  created_at timestamp with time zone NOT NULL,
  dispatched_at timestamp with time zone,
  CONSTRAINT refund_pkey PRIMARY KEY (id),
  CONSTRAINT refund_registration_id_fkey FOREIGN KEY (registration_id) REFERENCES registration(id),
  CONSTRAINT refund_count CHECK (count >= 1)
) WITH ();

CREATE TABLE registration (
  id uuid NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  count bigint NOT NULL,
  fractional_count double precision NOT NULL DEFAULT 0,
  refunded_count bigint NOT NULL DEFAULT 0,
  created_at timestamp with time zone NOT NULL,
  idempotency_key text,
  attribution text NOT NULL DEFAULT ''::text,
  metadata jsonb NOT NULL DEFAULT '{}'::jsonb,
  json_bytes integer NOT NULL DEFAULT 260,
  planting_order_id integer,
  tree_order_id bigint,
  ordered_count bigint,
  tree_order_public_id text,
  customer_name text,
  customer_email text,
  customer_id text,
  order_id text,
  notes text,
  unit_price_cents bigint,
  imported_id text COLLATE "C",
  usage_batch bigint,
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT registration_pkey PRIMARY KEY (id),
  CONSTRAINT registration_count CHECK (count >= 1 AND count <= '9007199254740991'::bigint),
  CONSTRAINT registration_imported_id_length CHECK (length(imported_id) >= 1 AND length(imported_id) <= 64),
  CONSTRAINT registration_kind CHECK (kind = ANY (ARRAY['tree'::text, 'bottle'::text])),
  CONSTRAINT registration_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text])),
  CONSTRAINT registration_refunded_count CHECK (refunded_count >= 0 AND refunded_count <= count),
  CONSTRAINT registration_unit_price CHECK (unit_price_cents >= 0)
) WITH ();

CREATE TABLE schema_migration (
  number integer NOT NULL,
  name text NOT NULL,
  applied_at timestamp with time zone NOT NULL DEFAULT now(),
  runs_with integer NOT NULL,
  checksum text NOT NULL,
  CONSTRAINT schema_migration_pkey PRIMARY KEY (number),
  CONSTRAINT schema_migration_runs_with CHECK (runs_with <= number)
) WITH ();

CREATE TABLE store (
  account_id uuid NOT NULL,
  domain text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  organization_id uuid,
  tree_price_cents bigint NOT NULL,
  bottle_price_cents bigint NOT NULL,
  tree_planting boolean NOT NULL DEFAULT true,
  plastic_removal boolean NOT NULL DEFAULT true,
  donations boolean NOT NULL DEFAULT true,
  uninstalled_at timestamp with time zone,
  balance_cents bigint NOT NULL DEFAULT 0,
  low_balance_cents bigint NOT NULL,
  depleted_at timestamp with time zone,
  last_record_at timestamp with time zone NOT NULL DEFAULT '-infinity'::timestamp with time zone,
  CONSTRAINT store_domain UNIQUE (domain),
  CONSTRAINT store_user_id UNIQUE (user_id),
  CONSTRAINT store_pkey PRIMARY KEY (account_id),
  CONSTRAINT store_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT store_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES account(id),
  CONSTRAINT store_balance_low CHECK (low_balance_cents >= 0),
  CONSTRAINT store_balance_safe CHECK (balance_cents >= 0 AND balance_cents <= '9007199254740991'::bigint),
  CONSTRAINT store_bottle_price CHECK (bottle_price_cents >= 0 AND bottle_price_cents <= '99999999999'::bigint),
  CONSTRAINT store_tree_price CHECK (tree_price_cents >= 0 AND tree_price_cents <= '99999999999'::bigint)
) WITH (fillfactor=50);

CREATE TABLE stripe_customer (
  customer_id text COLLATE "C" NOT NULL,
  read_at timestamp with time zone NOT NULL,
  CONSTRAINT stripe_customer_pkey PRIMARY KEY (customer_id)
) WITH ();

CREATE TABLE stripe_subscription (
  account_id uuid NOT NULL,
  subscription_id text NOT NULL,
  state jsonb NOT NULL,
  read_at timestamp with time zone NOT NULL,
  CONSTRAINT stripe_subscription_pkey PRIMARY KEY (account_id),
  CONSTRAINT stripe_subscription_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
) WITH ();

CREATE TABLE usage_fact (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  usage_batch bigint,
  refund_id uuid,
  quantity bigint NOT NULL,
  record_count integer NOT NULL DEFAULT 1,
  second bigint NOT NULL,
  meter_event_id bigint,
  CONSTRAINT usage_fact_pkey PRIMARY KEY (id),
  CONSTRAINT usage_fact_meter_event_id_fkey FOREIGN KEY (meter_event_id) REFERENCES meter_event(id),
  CONSTRAINT usage_fact_refund_id_fkey FOREIGN KEY (refund_id) REFERENCES refund(id),
  CONSTRAINT usage_fact_batch_known CHECK (usage_batch IS NOT NULL),
  CONSTRAINT usage_fact_quantity CHECK (quantity <> 0 AND abs(quantity) <= '999999999999999'::bigint)
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_insert_scale_factor=0.05);

CREATE TABLE webhook_delivery (
  event_id uuid NOT NULL,
  endpoint_id uuid NOT NULL,
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  state text NOT NULL DEFAULT 'pending'::text,
  attempts integer NOT NULL DEFAULT 0,
  last_attempt json,
  created_at timestamp with time zone NOT NULL,
  due_at timestamp with time zone,
  CONSTRAINT webhook_delivery_pkey PRIMARY KEY (event_id, endpoint_id),
  CONSTRAINT webhook_delivery_event_id_fkey FOREIGN KEY (event_id) REFERENCES event(id) ON DELETE CASCADE,
  CONSTRAINT webhook_delivery_due CHECK ((due_at IS NOT NULL) = (state = 'pending'::text)),
  CONSTRAINT webhook_delivery_state CHECK (state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text]))
) WITH ();

CREATE TABLE webhook_endpoint (
  id uuid NOT NULL,
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  url text COLLATE "C" NOT NULL,
  description text NOT NULL,
  types text[],
  secret text COLLATE "C" NOT NULL,
  previous_secret text COLLATE "C",
  previous_secret_until timestamp with time zone,
  idempotency_key text COLLATE "C",
  created_at timestamp with time zone NOT NULL,
  failing_since timestamp with time zone,
  last_error text,
  disabled_at timestamp with time zone,
  disabled_reason text,
  CONSTRAINT webhook_endpoint_pkey PRIMARY KEY (id),
  CONSTRAINT webhook_endpoint_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT webhook_endpoint_description CHECK (length(description) <= 200),
  CONSTRAINT webhook_endpoint_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
  CONSTRAINT webhook_endpoint_disabled_reason CHECK (disabled_reason = ANY (ARRAY['requested'::text, 'gone'::text, 'failing'::text])),
  CONSTRAINT webhook_endpoint_failing CHECK ((failing_since IS NULL) = (last_error IS NULL)),
  CONSTRAINT webhook_endpoint_mode CHECK (mode = ANY (ARRAY['live'::text, 'test'::text])),
  CONSTRAINT webhook_endpoint_previous_secret CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
  CONSTRAINT webhook_endpoint_types CHECK (cardinality(types) >= 1),
  CONSTRAINT webhook_endpoint_url CHECK (length(url) >= 1 AND length(url) <= 4096)
) WITH ();

ALTER TABLE charity ALTER search_text SET STATISTICS 0;

CREATE STATISTICS public.donation_attributions ON text_digest(attribution) FROM donation;

CREATE STATISTICS public.donation_customer_emails ON text_digest(folded_text(customer_email)) FROM donation;

CREATE STATISTICS public.donation_customer_ids ON text_digest(trimmed_text(customer_id)) FROM donation;

CREATE STATISTICS public.donation_customer_names ON text_digest(folded_text(customer_name)) FROM donation;

CREATE STATISTICS public.donation_orders ON order_digest(order_id) FROM donation;

CREATE STATISTICS public.registration_attributions ON text_digest(attribution) FROM registration;

CREATE STATISTICS public.registration_customer_emails ON text_digest(folded_text(customer_email)) FROM registration;

CREATE STATISTICS public.registration_customer_ids ON text_digest(trimmed_text(customer_id)) FROM registration;

CREATE STATISTICS public.registration_customer_names ON text_digest(folded_text(customer_name)) FROM registration;

CREATE STATISTICS public.registration_orders ON order_digest(order_id) FROM registration;

CREATE UNIQUE INDEX account_stripe_customer ON public.account USING btree (stripe_customer_id) WHERE (stripe_customer_id IS NOT NULL);

CREATE INDEX account_stripe_subscription ON public.account USING btree (stripe_subscription_id) WHERE (stripe_subscription_id IS NOT NULL);

CREATE INDEX api_key_account ON public.api_key USING btree (account_id, created_at);

CREATE INDEX api_key_expiry ON public.api_key USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (revoked_at IS NULL));

CREATE INDEX audit_entry_account ON public.audit_entry USING btree (account_id, id);

CREATE INDEX audit_entry_action ON public.audit_entry USING btree (action, id);

CREATE INDEX balance_entry_listing ON public.balance_entry USING btree (account_id, id);

CREATE UNIQUE INDEX balance_entry_reference ON public.balance_entry USING btree (account_id, reference) WHERE (reference IS NOT NULL);

CREATE UNIQUE INDEX certificate_current ON public.certificate USING btree (record_id, is_of_order) WHERE (revoked_at IS NULL);

CREATE INDEX certificate_record_id ON public.certificate USING btree (record_id);

CREATE INDEX charity_listing ON public.charity USING btree (((known_as = ''::text)), ein) WHERE eligible;

CREATE INDEX charity_similarity ON public.charity USING gin (search_text gin_trgm_ops) WITH (gin_pending_list_limit='1024') WHERE eligible;

CREATE INDEX charity_words ON public.charity USING gin (array_to_tsvector(string_to_array(btrim(search_text), ' '::text))) WITH (gin_pending_list_limit='1024') WHERE eligible;

CREATE UNIQUE INDEX dashboard_own ON public.dashboard USING btree (account_id) WHERE (NOT is_alias);

CREATE INDEX donation_attribution ON public.donation USING btree (account_id, mode, text_digest(attribution), created_at, id) WHERE (attribution <> ''::text);

CREATE INDEX donation_customer_email ON public.donation USING btree (account_id, mode, text_digest(folded_text(customer_email)), created_at, id) WHERE (customer_email IS NOT NULL);

CREATE INDEX donation_customer_id ON public.donation USING btree (account_id, mode, text_digest(trimmed_text(customer_id)), created_at, id) WHERE (customer_id IS NOT NULL);

CREATE INDEX donation_customer_name ON public.donation USING gin (account_id, folded_text(customer_name) gin_trgm_ops) WHERE (customer_name IS NOT NULL);

CREATE UNIQUE INDEX donation_imported_id ON public.donation USING btree (imported_id_digest(account_id, mode, 'donation'::text, imported_id)) WHERE (imported_id IS NOT NULL);

CREATE INDEX donation_listing ON public.donation USING btree (account_id, mode, created_at, id);

CREATE INDEX donation_metadata ON public.donation USING gin (metadata_values(metadata) jsonb_path_ops) WHERE (metadata <> '{}'::jsonb);

CREATE INDEX donation_only_name ON public.donation USING btree (account_id, mode, text_digest(folded_text(customer_name))) WHERE ((customer_name IS NOT NULL) AND (customer_id IS NULL) AND (customer_email IS NULL));

CREATE INDEX donation_order ON public.donation USING btree (account_id, mode, order_digest(order_id), created_at, id) WHERE (order_id IS NOT NULL);

CREATE INDEX donation_standing ON public.donation USING btree (account_id, mode, created_at, id) WHERE (NOT refunded);

CREATE INDEX donation_refund_reason ON public.donation_refund USING btree (account_id, created_at) WHERE (reason IS NOT NULL);

CREATE INDEX event_age ON public.event USING btree (created_at);

CREATE INDEX event_feed ON public.event USING btree (account_id, mode, type, transaction_id, id);

CREATE INDEX event_recovery ON public.event USING btree (account_id, mode, created_at, id);

CREATE INDEX idempotency_key_personal ON public.idempotency_key USING btree (created_at) WHERE (request_hash IS NOT NULL);

CREATE INDEX impact_total_trees ON public.impact_total USING btree (mode, account_id) WHERE ((kind = 'tree'::text) AND (period = 'all'::text));

CREATE INDEX invoiced_usage_account ON public.invoiced_usage USING gin (account_ids);

CREATE INDEX invoiced_usage_customer ON public.invoiced_usage USING btree (customer_id, end_second);

CREATE INDEX invoiced_usage_problem ON public.invoiced_usage USING btree (problem) WHERE (problem IS NOT NULL);

CREATE INDEX meter_event_asking ON public.meter_event USING btree (account_id, mode, kind, retry_at) WHERE ((state = 'pending'::text) AND (asking_since IS NOT NULL));

CREATE INDEX meter_event_customer ON public.meter_event USING btree (customer_id, kind, second) WHERE (customer_id IS NOT NULL);

CREATE UNIQUE INDEX meter_event_difference ON public.meter_event USING btree (customer_id, kind, ((second - (second % (60)::bigint)))) WHERE (failure = 'difference'::text);

CREATE INDEX meter_event_failed ON public.meter_event USING btree (account_id, id) WHERE (state = 'failed'::text);

CREATE INDEX meter_event_late ON public.meter_event USING btree (account_id, id) WHERE is_late;

CREATE INDEX meter_event_pending ON public.meter_event USING btree (account_id, mode, kind, id) WHERE (state = 'pending'::text);

CREATE INDEX meter_event_second ON public.meter_event USING brin (second) WITH (autosummarize='on');

CREATE UNIQUE INDEX meter_event_sending ON public.meter_event USING btree (account_id, mode, kind) WHERE ((state = 'pending'::text) AND (first_attempt_at IS NOT NULL) AND (asking_since IS NULL));

CREATE INDEX meter_event_waits_for ON public.meter_event USING btree (waits_for) WHERE (waits_for IS NOT NULL);

CREATE UNIQUE INDEX next_planting_order_open ON public.next_planting_order USING btree (account_id, mode) WHERE is_open;

CREATE INDEX planting_claim_order ON public.planting_claim USING btree (order_id);

CREATE UNIQUE INDEX planting_fact_accepted ON public.planting_fact USING btree (order_id, stage) WHERE (state = 'accepted'::text);

CREATE INDEX planting_fact_contradiction ON public.planting_fact USING btree (order_id) WHERE (state = 'contradiction'::text);

CREATE INDEX planting_fact_site ON public.planting_fact USING btree (site_id, id) WHERE ((state = 'accepted'::text) AND (stage = ANY (ARRAY['planted'::text, 'planted_and_verified'::text])));

CREATE INDEX planting_order_account ON public.planting_order USING btree (account_id, id);

CREATE UNIQUE INDEX planting_order_imported_key ON public.planting_order USING btree (account_id, mode, imported_key) WHERE (imported_key IS NOT NULL);

CREATE INDEX planting_order_planted ON public.planting_order USING btree (account_id, id) WHERE ((mode = 'live'::text) AND (planted_at IS NOT NULL));

CREATE INDEX planting_order_unfinished ON public.planting_order USING btree (polled_at, id) WHERE (finished_at IS NULL);

CREATE INDEX processor_event_due ON public.processor_event USING btree (next_attempt_at);

CREATE INDEX profile_logo_hash ON public.profile USING btree (logo_hash) WHERE (logo_hash IS NOT NULL);

CREATE INDEX reconciliation_started ON public.reconciliation USING btree (started_at);

CREATE INDEX refund_reason ON public.refund USING btree (account_id, created_at) WHERE (reason IS NOT NULL);

CREATE INDEX refund_registration ON public.refund USING btree (registration_id);

CREATE INDEX refund_waiting ON public.refund USING btree (created_at) WHERE (dispatched_at IS NULL);

CREATE INDEX registration_attribution ON public.registration USING btree (account_id, mode, kind, text_digest(attribution), created_at, id) WHERE (attribution <> ''::text);

CREATE INDEX registration_customer_email ON public.registration USING btree (account_id, mode, kind, text_digest(folded_text(customer_email)), created_at, id) WHERE (customer_email IS NOT NULL);

CREATE INDEX registration_customer_id ON public.registration USING btree (account_id, mode, kind, text_digest(trimmed_text(customer_id)), created_at, id) WHERE (customer_id IS NOT NULL);

CREATE INDEX registration_customer_name ON public.registration USING gin (account_id, folded_text(customer_name) gin_trgm_ops) WHERE (customer_name IS NOT NULL);

CREATE INDEX registration_feed ON public.registration USING btree (account_id, mode, transaction_id) WHERE (usage_batch IS NOT NULL);

CREATE UNIQUE INDEX registration_imported_id ON public.registration USING btree (imported_id_digest(account_id, mode, kind, imported_id)) WHERE (imported_id IS NOT NULL);

CREATE INDEX registration_listing ON public.registration USING btree (account_id, mode, kind, created_at, id);

CREATE INDEX registration_metadata ON public.registration USING gin (metadata_values(metadata) jsonb_path_ops) WHERE (metadata <> '{}'::jsonb);

CREATE INDEX registration_only_name ON public.registration USING btree (account_id, mode, kind, text_digest(folded_text(customer_name))) WHERE ((customer_name IS NOT NULL) AND (customer_id IS NULL) AND (customer_email IS NULL));

CREATE INDEX registration_order ON public.registration USING btree (account_id, mode, kind, order_digest(order_id), created_at, id) WHERE (order_id IS NOT NULL);

CREATE INDEX registration_ordered ON public.registration USING btree (planting_order_id, created_at, id) WHERE ((planting_order_id IS NOT NULL) AND (unit_price_cents IS NOT NULL) AND (refunded_count < count));

CREATE INDEX registration_planting_order ON public.registration USING btree (planting_order_id) WHERE (planting_order_id IS NOT NULL);

CREATE INDEX registration_reversible ON public.registration USING btree (account_id, mode, kind, created_at, id) WHERE ((unit_price_cents IS NOT NULL) AND (refunded_count < count));

CREATE INDEX usage_fact_batch ON public.usage_fact USING btree (usage_batch) WHERE (refund_id IS NULL);

CREATE INDEX usage_fact_event ON public.usage_fact USING btree (meter_event_id) WHERE (meter_event_id IS NOT NULL);

CREATE INDEX usage_fact_refund ON public.usage_fact USING btree (refund_id) WHERE (refund_id IS NOT NULL);

CREATE INDEX usage_fact_refunded_batch ON public.usage_fact USING btree (usage_batch) WHERE ((refund_id IS NOT NULL) AND (usage_batch IS NOT NULL));

CREATE INDEX usage_fact_unsealed ON public.usage_fact USING btree (account_id, mode, kind, second, id) WHERE (meter_event_id IS NULL);

CREATE INDEX webhook_delivery_failed ON public.webhook_delivery USING btree (endpoint_id, created_at, event_id) WHERE ((state <> 'delivered'::text) AND (attempts > 0));

CREATE INDEX webhook_delivery_list ON public.webhook_delivery USING btree (endpoint_id, created_at, event_id);

CREATE INDEX webhook_delivery_pending ON public.webhook_delivery USING btree (endpoint_id, due_at, event_id) WHERE (state = 'pending'::text);

CREATE INDEX webhook_endpoint_owner ON public.webhook_endpoint USING btree (account_id, mode);

CREATE OR REPLACE FUNCTION public.folded_text(given text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN NORMALIZE(translate(lower((btrim(given, ' 	
'::text) COLLATE "und-x-icu")), 'ς'::text, 'σ'::text), NFC);

CREATE OR REPLACE FUNCTION public.idempotency_key_hash(secret bytea, account_id uuid, mode text, operation text, key text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN sha256((secret || text_digest((((((((account_id)::text || '/'::text) || mode) || '/'::text) || operation) || '/'::text) || key))));

CREATE OR REPLACE FUNCTION public.imported_id_digest(account_id uuid, mode text, kind text, imported_id text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN text_digest((((((((account_id)::text || '/'::text) || mode) || '/'::text) || kind) || '/'::text) || imported_id));

CREATE OR REPLACE FUNCTION public.metadata_values(metadata jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN jsonb_path_query_array(jsonb_path_query_array(metadata, 'strict $.**?(@.type() == "string" || @.type() == "number")'::jsonpath), '$[0 to 63]'::jsonpath);

CREATE OR REPLACE FUNCTION public.order_digest(given text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN text_digest(NORMALIZE(rtrim(ltrim(given, '# 	
'::text), ' 	
'::text), NFC));

CREATE OR REPLACE FUNCTION public.reject_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  RAISE EXCEPTION '% cannot be changed or deleted', TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END
$function$;

CREATE OR REPLACE FUNCTION public.text_digest(given text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN sha256(decode(replace(given, '\'::text, '\\'::text), 'escape'::text));

CREATE OR REPLACE FUNCTION public.trimmed_text(given text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN NORMALIZE(btrim(given, ' 	
'::text), NFC);

CREATE TRIGGER audit_entry_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_entry FOR EACH STATEMENT EXECUTE FUNCTION reject_change('audit entries');

CREATE TRIGGER balance_entry_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.balance_entry FOR EACH STATEMENT EXECUTE FUNCTION reject_change('balance entries');
