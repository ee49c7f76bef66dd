-- Recorded donations to charities, in US cents. They produce no usage facts.
CREATE TABLE donation (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT donation_mode CHECK (mode IN ('live', 'test')),
  -- At most 2^53 - 1, so that JSON carries it exactly.
  amount_cents bigint NOT NULL CONSTRAINT donation_amount_cents CHECK (amount_cents BETWEEN 1 AND 9007199254740991),
  -- Nine digits; null if the charity has none.
  ein text CONSTRAINT donation_ein CHECK (ein ~ '^\d{9}$'),
  -- The charity's id at the provider that confirmed it.
  nonprofit_id text NOT NULL,
  charity_provider text NOT NULL,
  -- As the client named the charity; the charity's own name if it did not.
  charity_name text NOT NULL,
  -- The charity's own name, which certificates show; null in imported donations, whose charities were not looked up.
  confirmed_name text,
  created_at timestamptz NOT NULL,
  idempotency_key text,
  attribution text NOT NULL DEFAULT '',
  metadata jsonb NOT NULL DEFAULT '{}',
  -- The time is in donation_refund. It is unknown if another system refunded the donation, because lists do not say it.
  refunded boolean NOT NULL DEFAULT false,
  -- The customer and order of a store's donation; null in organizations' donations.
  customer_name text,
  customer_email text,
  customer_id text,
  order_id text,
  -- The id in the system that the donation was imported from. Clients see it instead of the id.
  imported_id text COLLATE "C" CONSTRAINT donation_imported_id_length CHECK (length(imported_id) BETWEEN 1 AND 64)
);

CREATE UNIQUE INDEX donation_imported_id
  ON donation (imported_id_digest(account_id, mode, 'donation', imported_id)) WHERE imported_id IS NOT NULL;
CREATE INDEX donation_listing ON donation (account_id, mode, created_at, id);
CREATE INDEX donation_attribution
  ON donation (account_id, mode, text_digest(attribution), created_at, id) WHERE attribution <> '';

CREATE INDEX donation_customer_email ON donation
  (account_id, mode, text_digest(folded_text(customer_email)), created_at, id) WHERE customer_email IS NOT NULL;
CREATE INDEX donation_customer_id ON donation
  (account_id, mode, text_digest(trimmed_text(customer_id)), created_at, id) WHERE customer_id IS NOT NULL;
CREATE INDEX donation_customer_name ON donation
  USING gin (account_id, folded_text(customer_name) gin_trgm_ops) WHERE customer_name IS NOT NULL;
-- Those with only a name, for the export and erasure of a customer.
CREATE INDEX donation_only_name ON donation (account_id, mode, text_digest(folded_text(customer_name)))
  WHERE customer_name IS NOT NULL AND customer_id IS NULL AND customer_email IS NULL;
CREATE INDEX donation_order ON donation
  (account_id, mode, order_digest(order_id), created_at, id) WHERE order_id IS NOT NULL;
-- The planner ignores the statistics of partial indexes.
CREATE STATISTICS donation_attributions ON text_digest(attribution) FROM donation;
CREATE STATISTICS donation_orders ON order_digest(order_id) FROM donation;
CREATE STATISTICS donation_customer_emails ON text_digest(folded_text(customer_email)) FROM donation;
CREATE STATISTICS donation_customer_names ON text_digest(folded_text(customer_name)) FROM donation;
CREATE STATISTICS donation_customer_ids ON text_digest(trimmed_text(customer_id)) FROM donation;
-- A reversal takes the newest donations that are not refunded.
CREATE INDEX donation_standing ON donation (account_id, mode, created_at, id) WHERE NOT refunded;
-- An account that donates in one mode: its donations, and its subscription to them.
CREATE TABLE donor (
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL,
  -- The totals of donations that are not refunded, updated in the transaction of each change.
  count bigint NOT NULL DEFAULT 0 CONSTRAINT donor_count CHECK (count >= 0),
  amount_cents bigint NOT NULL DEFAULT 0
    CONSTRAINT donor_total_safe CHECK (amount_cents BETWEEN 0 AND 9007199254740991),
  -- Null until it has subscribed.
  processor text CONSTRAINT donor_processor CHECK (processor IN ('stripe', 'ledger')),
  -- The processor's subscription that has the items; null for the built-in ledger, which has no subscriptions.
  subscription_id text,
  -- Null until the processor has the items.
  active_since timestamptz,
  -- When the processor was last seen to have the items.
  verified_at timestamptz,
  PRIMARY KEY (account_id, mode)
) WITH (fillfactor = 50);

-- Refunds that were made here. A donation is refunded as a whole, once.
CREATE TABLE donation_refund (
  donation_id uuid PRIMARY KEY REFERENCES donation,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL,
  reason text,
  idempotency_key text,
  metadata jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL
);

-- For erasing the reason of a reversal, which each of its refunds has.
CREATE INDEX donation_refund_reason ON donation_refund (account_id, created_at) WHERE reason IS NOT NULL;

-- The built-in catalogue: the rows of the IRS Business Master File, and our own facts about well-known charities.
CREATE TABLE charity (
  ein text COLLATE "C" PRIMARY KEY CONSTRAINT charity_ein CHECK (ein ~ '^\d{9}$'),
  -- As the IRS lists it, in capitals; the well-known name until a file is imported.
  name text NOT NULL,
  -- Trade, chapter or local name.
  sort_name text NOT NULL DEFAULT '',
  -- The name that the public uses; empty for most.
  known_as text NOT NULL DEFAULT '',
  website text NOT NULL DEFAULT '',
  city text NOT NULL DEFAULT '',
  state text NOT NULL DEFAULT '',
  ntee text NOT NULL DEFAULT '',
  -- 9 marks a subordinate of a group ruling, which often shares its name with hundreds of others.
  affiliation text NOT NULL DEFAULT '',
  subsection text NOT NULL,
  deductibility text NOT NULL,
  -- Of two equal matches the larger is listed first.
  income_code smallint NOT NULL DEFAULT 0
    CONSTRAINT charity_income_code CHECK (income_code BETWEEN 0 AND 9),
  -- The date of the latest extract that contained the row; null if none did.
  extracted_on date,
  -- False if the latest complete extract lacks the row.
  listed boolean NOT NULL DEFAULT true,
  -- A 501(c)(3) to which contributions are deductible.
  eligible boolean NOT NULL GENERATED ALWAYS AS (listed AND subsection = '03' AND deductibility = '1') STORED,
  -- The sort name, the well-known name and the name, with a bar between them and at the end. Each word is in lower-case
  -- and has a space on both sides; a search normalizes its words in the same way.
  search_text text NOT NULL GENERATED ALWAYS AS (
    regexp_replace(
      lower(regexp_replace(
        replace(' ' || sort_name || ' | ' || known_as || ' | ' || name || ' | ', '&', ' and '), '[''.]', '', 'g'
      )),
      '[^a-z0-9|]+', ' ', 'g'
    )
  ) STORED
) WITH (fillfactor = 90);

-- Statistics of such texts would only slow the planning of a search.
ALTER TABLE charity ALTER search_text SET STATISTICS 0;

-- A search also reads the list of an index's pending changes. A short list keeps searches fast while and after a file is
-- imported; without any, the import would take several times as long.
CREATE INDEX charity_words ON charity USING gin (array_to_tsvector(string_to_array(btrim(search_text), ' ')))
  WITH (gin_pending_list_limit = 1024) WHERE eligible;
-- For misspelled names.
CREATE INDEX charity_similarity ON charity USING gin (search_text gin_trgm_ops)
  WITH (gin_pending_list_limit = 1024) WHERE eligible;
-- The order of a search without a name or EIN.
CREATE INDEX charity_listing ON charity ((known_as = ''), ein) WHERE eligible;

-- When a bucket's latest requests were permitted, oldest first. A crash of the database empties the table: harmless.
CREATE UNLOGGED TABLE rate_limit (
  bucket text COLLATE "C" PRIMARY KEY,
  permitted_at timestamptz[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- Well-known charities, compiled from public facts, so that searches and donations work before any file is imported.
-- Importing an IRS file adds its columns and keeps the well-known name and the website.
INSERT INTO charity (ein, name, known_as, website, ntee, subsection, deductibility)
SELECT ein, known_as, known_as, 'https://' || website, ntee, '03', '1'
FROM (
  VALUES
    ('530196605', 'American Red Cross', 'www.redcross.org', 'M'),
    ('521693387', 'World Wildlife Fund', 'www.worldwildlife.org', 'C'),
    ('530242652', 'The Nature Conservancy', 'www.nature.org', 'C'),
    ('530196544', 'American Forests', 'www.americanforests.org', 'C'),
    ('464664562', 'One Tree Planted', 'onetreeplanted.org', 'C'),
    ('510401308', 'Oceana', 'oceana.org', 'C'),
    ('237245152', 'Ocean Conservancy', 'oceanconservancy.org', 'C'),
    ('530183181', 'Defenders of Wildlife', 'defenders.org', 'D'),
    ('953313195', 'Greenpeace Fund', 'www.greenpeace.org', 'C'),
    ('530225165', 'National Parks Conservation Association', 'www.npca.org', 'C'),
    ('521086761', 'National Park Foundation', 'www.nationalparks.org', 'C'),
    ('530167933', 'The Wilderness Society', 'www.wilderness.org', 'C'),
    ('237305963', 'American Rivers', 'www.americanrivers.org', 'C'),
    ('521257057', 'World Resources Institute', 'www.wri.org', 'C'),
    ('522148600', 'Environmental Working Group', 'www.ewg.org', 'C'),
    ('520901863', 'Environmental Law Institute', 'www.eli.org', 'C'),
    ('201326922', 'Environmental Integrity Project', 'environmentalintegrity.org', 'C'),
    ('237420660', 'Friends of the Earth', 'foe.org', 'C'),
    ('521384139', 'National Fish and Wildlife Foundation', 'www.nfwf.org', 'D'),
    ('311594197', 'International Fund for Animal Welfare', 'www.ifaw.org', 'D'),
    ('521437006', 'Rails to Trails Conservancy', 'www.railstotrails.org', 'N'),
    ('521190211', 'American Farmland Trust', 'farmland.org', 'K'),
    ('521379661', 'League of Conservation Voters Education Fund', 'www.lcvef.org', 'C'),
    ('371622018', 'The Recycling Partnership', 'recyclingpartnership.org', 'C'),
    ('300241904', 'African Parks Foundation of America', 'www.africanparks.org', 'D'),
    ('833342642', 'Great Barrier Reef Foundation USA', 'www.barrierreef.org', 'C'),
    ('273521132', 'World Central Kitchen', 'wck.org', 'K'),
    ('133843435', 'World Food Program USA', 'www.wfpusa.org', 'K'),
    ('510175510', 'Bread for the World Institute', 'www.bread.org', 'K'),
    ('520889518', 'Special Olympics', 'www.specialolympics.org', 'N'),
    ('520907625', 'NPR', 'www.npr.org', 'A'),
    ('530206027', 'Smithsonian Institution', 'www.si.edu', 'A'),
    ('530193519', 'National Geographic Society', 'www.nationalgeographic.org', 'B'),
    ('530245017', 'John F. Kennedy Center for the Performing Arts', 'www.kennedy-center.org', 'A'),
    ('530210807', 'National Trust for Historic Preservation', 'savingplaces.org', 'A'),
    ('541426643', 'American Battlefield Trust', 'www.battlefields.org', 'A'),
    ('520749685', 'White House Historical Association', 'www.whitehousehistory.org', 'A'),
    ('530196577', 'Brookings Institution', 'www.brookings.edu', 'V'),
    ('520880375', 'Urban Institute', 'www.urban.org', 'V'),
    ('200881724', 'Pew Research Center', 'www.pewresearch.org', 'V'),
    ('562307147', 'The Pew Charitable Trusts', 'www.pewtrusts.org', 'T'),
    ('130552040', 'Carnegie Endowment for International Peace', 'carnegieendowment.org', 'Q'),
    ('530196523', 'Carnegie Science', 'carnegiescience.edu', 'U'),
    ('530196932', 'National Academy of Sciences', 'www.nasonline.org', 'U'),
    ('530196568', 'American Association for the Advancement of Science', 'www.aaas.org', 'U'),
    ('530196572', 'American Chemical Society', 'www.acs.org', 'U'),
    ('520955532', 'American Geophysical Union', 'www.agu.org', 'U'),
    ('530196483', 'Society for Science', 'www.societyforscience.org', 'U'),
    ('135644916', 'Blood Cancer United (Leukemia & Lymphoma Society)', 'bloodcancerunited.org', 'G'),
    ('954191698', 'Elizabeth Glaser Pediatric AIDS Foundation', 'pedaids.org', 'G'),
    ('521969967', 'Campaign for Tobacco-Free Kids', 'www.tobaccofreekids.org', 'E'),
    ('911956621', 'Truth Initiative', 'truthinitiative.org', 'E'),
    ('530196580', 'Children''s National Hospital', 'www.childrensnational.org', 'E'),
    ('530242962', 'Project HOPE', 'www.projecthope.org', 'Q'),
    ('900874591', 'Evidence Action', 'www.evidenceaction.org', 'Q'),
    ('582368165', 'United Nations Foundation', 'unfoundation.org', 'Q'),
    ('521662800', 'USA for UNHCR', 'www.unrefugees.org', 'Q'),
    ('300108263', 'GlobalGiving', 'www.globalgiving.org', 'Q'),
    ('521273585', 'Global Impact', 'charity.org', 'T'),
    ('135661832', 'Plan International USA', 'www.planusa.org', 'Q'),
    ('521231983', 'Aga Khan Foundation USA', 'www.akfusa.org', 'Q'),
    ('133240109', 'FINCA International', 'finca.org', 'Q'),
    ('560942853', 'Population Services International', 'www.psi.org', 'Q'),
    ('132702768', 'Pact', 'www.pactworld.org', 'Q'),
    ('530235320', 'Pathfinder International', 'www.pathfinder.org', 'Q'),
    ('131623838', 'EngenderHealth', 'www.engenderhealth.org', 'Q'),
    ('520882226', 'American Near East Refugee Aid', 'www.anera.org', 'Q'),
    ('954300662', 'Relief International', 'www.ri.org', 'Q'),
    ('520811461', 'ACDI/VOCA', 'www.acdivoca.org', 'Q'),
    ('522158152', 'The HALO Trust USA', 'www.halotrust.org', 'Q'),
    ('522302253', 'MAG America', 'www.maginternational.org', 'Q'),
    ('521257425', 'Search for Common Ground', 'www.sfcg.org', 'Q'),
    ('522151557', 'Vital Voices Global Partnership', 'www.vitalvoices.org', 'Q'),
    ('131656647', 'Freedom House', 'freedomhouse.org', 'R'),
    ('455257937', 'Center for Disaster Philanthropy', 'disasterphilanthropy.org', 'M'),
    ('030179592', 'World Learning', 'www.worldlearning.org', 'Q'),
    ('521779606', 'First Book', 'firstbook.org', 'B'),
    ('131624241', 'UNCF (United Negro College Fund)', 'uncf.org', 'B'),
    ('411750692', 'Thurgood Marshall College Fund', 'www.tmcf.org', 'B'),
    ('530204707', 'Howard University', 'howard.edu', 'B'),
    ('530196603', 'Georgetown University', 'www.georgetown.edu', 'B'),
    ('530196549', 'American University', 'www.american.edu', 'B'),
    ('520794300', 'AARP Foundation', 'www.aarp.org/aarp-foundation', 'P'),
    ('860212873', 'UnidosUS', 'unidosus.org', 'R'),
    ('262763038', 'Kids in Need of Defense', 'supportkind.org', 'I'),
    ('521263996', 'Public Citizen Foundation', 'www.citizen.org', 'W'),
    ('131946868', 'Paralyzed Veterans of America', 'pva.org', 'W'),
    ('680480736', 'Network for Good', 'www.networkforgood.org', 'T'),
    ('450931286', 'PayPal Giving Fund', 'www.paypal.com/fundraiser', 'T'),
    ('980593375', 'Gavi, the Vaccine Alliance', 'www.gavi.org', 'Q'),
    ('521309391', 'United States Holocaust Memorial Museum', 'www.ushmm.org', 'A'),
    ('521105189', 'Zero to Three', 'www.zerotothree.org', 'P'),
    ('131760110', 'UNICEF USA', 'www.unicefusa.org', 'Q'),
    ('133433452', 'Doctors Without Borders USA', 'www.doctorswithoutborders.org', 'Q'),
    ('620646012', 'St. Jude Children''s Research Hospital', 'www.stjude.org', 'E'),
    ('363673599', 'Feeding America', 'www.feedingamerica.org', 'K'),
    ('131788491', 'American Cancer Society', 'www.cancer.org', 'G'),
    ('135613797', 'American Heart Association', 'www.heart.org', 'G'),
    ('911914868', 'Habitat for Humanity International', 'www.habitat.org', 'L'),
    ('951922279', 'World Vision', 'www.worldvision.org', 'Q'),
    ('060726487', 'Save the Children', 'www.savethechildren.org', 'Q'),
    ('951831116', 'Direct Relief', 'www.directrelief.org', 'Q'),
    ('200049703', 'Wikimedia Foundation', 'wikimediafoundation.org', 'B'),
    ('043091431', 'Electronic Frontier Foundation', 'www.eff.org', 'R'),
    ('136213516', 'American Civil Liberties Union Foundation', 'www.aclu.org', 'R'),
    ('132654926', 'Natural Resources Defense Council', 'www.nrdc.org', 'C'),
    ('116107128', 'Environmental Defense Fund', 'www.edf.org', 'C'),
    ('237069110', 'Oxfam America', 'www.oxfamamerica.org', 'Q'),
    ('911148123', 'Mercy Corps', 'www.mercycorps.org', 'Q'),
    ('135660870', 'International Rescue Committee', 'www.rescue.org', 'Q'),
    ('223936753', 'charity: water', 'www.charitywater.org', 'Q'),
    ('261544963', 'Khan Academy', 'www.khanacademy.org', 'B'),
    ('860481941', 'Make-A-Wish America', 'wish.org', 'P'),
    ('131624016', 'Girl Scouts of the USA', 'www.girlscouts.org', 'O'),
    ('131846366', 'March of Dimes', 'www.marchofdimes.org', 'G'),
    ('134141945', 'The Michael J. Fox Foundation', 'www.michaeljfox.org', 'H'),
    ('131623829', 'ASPCA', 'www.aspca.org', 'D'),
    ('237147797', 'Best Friends Animal Society', 'bestfriends.org', 'D'),
    ('131624102', 'National Audubon Society', 'www.audubon.org', 'D'),
    ('202370934', 'Wounded Warrior Project', 'www.woundedwarriorproject.org', 'W'),
    ('351019477', 'Heifer International', 'www.heifer.org', 'Q'),
    ('135563422', 'Catholic Relief Services', 'www.crs.org', 'Q'),
    ('043567502', 'Partners In Health', 'www.pih.org', 'Q'),
    ('134129457', 'DonorsChoose', 'www.donorschoose.org', 'B'),
    ('271661997', 'GiveDirectly', 'www.givedirectly.org', 'Q'),
    ('200097189', 'Mozilla Foundation', 'www.mozillafoundation.org', 'U'),
    ('943242767', 'Internet Archive', 'archive.org', 'B'),
    ('541460147', 'Operation Smile', 'www.operationsmile.org', 'Q'),
    ('133661416', 'Smile Train', 'www.smiletrain.org', 'Q'),
    ('237169265', 'Arbor Day Foundation', 'www.arborday.org', 'C'),
    ('941730465', 'Earthjustice', 'earthjustice.org', 'C'),
    ('132875808', 'Human Rights Watch', 'www.hrw.org', 'R'),
    ('131623888', 'American Diabetes Association', 'diabetes.org', 'G'),
    ('131740011', 'Wildlife Conservation Society', 'www.wcs.org', 'D'),
    ('521497470', 'Conservation International', 'www.conservation.org', 'C')
) AS starter (ein, known_as, website, ntee);
