import { wrapPool } from "../../../db/pools/wrapPool.ts";
import type { CharityIds } from "../../../modules/charities/charities.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { createCharities } from "../../../modules/charities/createCharities.ts";
import { charityKey, confirmCharities } from "../../../modules/charities/confirmCharity.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

const KNOWN = ["530196605", "521693387", "530242652", "530196544", "464664562", "510401308"];

test("the charities of a batch are looked up by one statement", async (t) => {
  let statements = 0;
  const db = wrapPool(t.context.db, (method) => (...parameters) => {
    statements += 1;
    return method(...parameters);
  });
  const settings = { everyorg: null, change: null, pledge: null };
  const charities = createCharities({ db, clock: systemClock, settings });
  const accepted: readonly CharityIds[] = [
    ...KNOWN.map((ein) => ({ ein, nonprofitId: null })),
    ...KNOWN.map((ein) => ({ ein: null, nonprofitId: `irs_${ein}` })),
    { ein: "530196605", nonprofitId: "irs_53-0196605" },
  ];
  const rejected: readonly CharityIds[] = [
    { ein: "000000001", nonprofitId: null },
    { ein: null, nonprofitId: "irs_none" },
    { ein: "530196605", nonprofitId: "irs_521693387" },
  ];

  const outcomes = await confirmCharities(
    { validateCharity: () => Promise.reject(new Error("not reached")) },
    charities.named("catalogue", "account"),
    "account",
    [...accepted, ...rejected, ...accepted].map((charity) => ({ id: "id", charity })),
  );

  t.is(statements, 1);
  for (const [index, ids] of accepted.entries()) {
    const ein = KNOWN[index % KNOWN.length] ?? "";
    const charity = { ein, nonprofitId: `irs_${ein}` };
    t.like(outcomes.get(charityKey(ids)), { provider: "catalogue", charity });
  }
  t.deepEqual(
    rejected.map((ids) => {
      const outcome = outcomes.get(charityKey(ids));
      return outcome instanceof DomainError && outcome.code;
    }),
    ["charity_not_found", "charity_not_found", "request_invalid"],
  );
});
