import { listOrganizations } from "../../../db/accounts/accounts.ts";
import { listStores } from "../../../db/stores/stores.ts";
import { counted } from "../../../domain/counted.ts";
import type { CliContext } from "../../context.ts";
import { findIgnoredPrice } from "../../../program/settings/readStripeOptions.ts";
import { missingCharitySettings } from "../../charitySettings.ts";
import { check, checkWithDatabase, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

const checkProviders = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "charity providers", async () => {
    const { connections } = context;
    const db = await connections.database();
    const accounts = [
      ...(await listOrganizations(db)),
      ...(await listStores(db)).filter(({ uninstalledAt }) => uninstalledAt === null),
    ];
    const selected = [...new Set(accounts.map(({ charityProvider }) => charityProvider))];
    const missing = selected.flatMap((provider) => {
      const setting = missingCharitySettings(connections.config(), provider);
      const users = accounts.filter(({ charityProvider }) => charityProvider === provider).length;
      return setting === null
        ? []
        : [
            `${setting} is not set here, and ${counted(users, "account uses", "accounts use")} ${provider}`,
          ];
    });
    return missing.length === 0
      ? ok(selected.length === 0 ? "no accounts" : selected.toSorted().join(", "))
      : wrong(`${missing.join("; ")}. Their searches and donations fail`);
  });

const checkPrices = ({ connections }: CliContext): Promise<Finding> =>
  check("donation prices", () => {
    const {
      STRIPE_SECRET_KEY,
      STRIPE_DONATION_FLAT_PRICE: flat,
      STRIPE_DONATION_METERED_PRICE: metered,
    } = connections.config();
    const ignored = findIgnoredPrice(connections.config());
    if (ignored !== null) {
      return Promise.resolve(wrong(ignored));
    }
    if (STRIPE_SECRET_KEY === undefined) {
      return Promise.resolve(skipped("STRIPE_SECRET_KEY is not set here"));
    }
    return Promise.resolve(
      flat === undefined || metered === undefined
        ? skipped(
            "STRIPE_DONATION_FLAT_PRICE and STRIPE_DONATION_METERED_PRICE are not set here; POST /charities/subscribe fails without them for live keys",
          )
        : ok("both are set"),
    );
  });

/** Checks that donations have the settings that they need. */
export const checkDonations = async (context: CliContext): Promise<readonly Finding[]> => [
  await checkProviders(context),
  await checkPrices(context),
];
