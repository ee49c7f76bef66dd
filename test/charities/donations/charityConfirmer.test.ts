import { wrapPool } from "../../../db/pools/wrapPool.ts";
import { saveCharityDetail } from "../../../modules/charities/charities.sql.ts";
import type { CharityIds } from "../../../modules/charities/charities.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { createCharities } from "../../../modules/charities/createCharities.ts";
import { charityKey, createCharityConfirmer } from "../../../modules/charities/confirmCharity.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

/** Returns donations to charities. */
const toConfirm = (charities: readonly CharityIds[]) =>
  charities.map((charity) => ({ id: crypto.randomUUID(), charity }));

const KNOWN = ["530196605", "521693387", "530242652", "530196544", "464664562", "510401308"];

test("the charities of a batch are looked up by one statement", async (t) => {
  const { db } = t.context;
  let statements = 0;
  const counted = wrapPool(db, (method) => (...parameters) => {
    statements += 1;
    return method(...parameters);
  });
  const charities = createCharities({
    db: counted,
    clock: systemClock,
    settings: {
      everyorg: { apiKey: "key", apiBase: "http://127.0.0.1:1" },
      change: null,
      pledge: null,
    },
  });
  const deps = {
    db,
    charities,
    validateCharity: () => Promise.reject(new Error("not reached")),
  };

  const ofCatalogue: readonly CharityIds[] = [
    ...KNOWN.map((ein) => ({ ein, nonprofitId: null })),
    ...KNOWN.map((ein) => ({ ein: null, nonprofitId: `irs_${ein}` })),
    { ein: "530196605", nonprofitId: "irs_53-0196605" },
  ];
  const rejected: readonly CharityIds[] = [
    { ein: "000000001", nonprofitId: null },
    { ein: null, nonprofitId: "irs_none" },
    { ein: "530196605", nonprofitId: "irs_521693387" },
  ];
  const confirm = createCharityConfirmer(deps, charities.named("catalogue", "account"), "account");
  const outcomes = await confirm(toConfirm([...ofCatalogue, ...rejected, ...ofCatalogue]));
  t.is(statements, 1);
  for (const [index, ids] of ofCatalogue.entries()) {
    const outcome = outcomes.get(charityKey(ids));
    const ein = KNOWN[index % KNOWN.length] ?? "";
    t.like(outcome, { provider: "catalogue", charity: { ein, nonprofitId: `irs_${ein}` } });
  }
  t.deepEqual(
    rejected.map((ids) => {
      const outcome = outcomes.get(charityKey(ids));
      return outcome instanceof DomainError && outcome.code;
    }),
    ["charity_not_found", "charity_not_found", "request_invalid"],
  );
  await confirm(toConfirm(ofCatalogue));
  t.is(statements, 1, "known outcomes need no statement");

  const stored = {
    nonprofitId: "stored",
    name: "Stored",
    ein: "530196605",
    description: "",
    website: "",
    iconUrl: "",
  };
  for (const lookup of ["ein:530196605", "id:stored"]) {
    await saveCharityDetail(db, "everyorg", lookup, stored, systemClock.now());
  }
  const ofProvider: readonly CharityIds[] = [
    { ein: "530196605", nonprofitId: null },
    { ein: null, nonprofitId: "stored" },
  ];
  statements = 0;
  const found = await createCharityConfirmer(
    deps,
    charities.named("everyorg", "account"),
    "account",
  )(toConfirm(ofProvider));
  t.is(statements, 1);
  t.deepEqual(
    [...found.values()],
    [
      { provider: "everyorg", charity: stored },
      { provider: "everyorg", charity: stored },
    ],
  );
});
