import type { DatabasePool } from "slonik";
import { takePermit } from "../../db/rateLimits.ts";
import type { CharityProviderName } from "../../domain/charities/charities.ts";
import type { Clock } from "../../domain/clock.ts";
import { createCatalogue } from "./catalogue/createCatalogue.ts";
import type { CharityProvider } from "./provider.ts";
import { CharityProviderError } from "./provider.ts";
import { createChange } from "./remote/createChange.ts";
import { createEveryOrg } from "./remote/createEveryOrg.ts";
import { createPledge } from "./remote/createPledge.ts";
import { keepDetails } from "./remote/keepDetails.ts";

/** The charity providers of this deployment. */
export type Charities = {
  /** A provider that has no key in the settings fails whatever it is asked. */
  readonly named: (name: CharityProviderName) => CharityProvider;
};

/** Keys and addresses of the remote providers; null where the operator has no key. */
export type CharitySettings = {
  readonly everyorg: { readonly apiKey: string; readonly apiBase: string } | null;
  readonly change: {
    readonly publicKey: string;
    readonly secretKey: string;
    readonly apiBase: string;
  } | null;
  readonly pledge: { readonly apiKey: string; readonly apiBase: string } | null;
};

/** Two attempts and the pause between them fit into what a client waits for. */
const TIMEOUT_MS = 1500;

const createMissing = (name: CharityProviderName): CharityProvider => {
  const refuse = (): Promise<never> =>
    Promise.reject(new CharityProviderError(`${name}: its key is not set`));
  return { name, search: refuse, findByEin: refuse, findById: refuse };
};

export const createCharities = ({
  db,
  searches = db,
  clock,
  settings: { everyorg, change, pledge },
  timeoutMs = TIMEOUT_MS,
}: {
  readonly db: DatabasePool;
  /** Connections for searches of the catalogue; a program that serves no searches needs none of its own. */
  readonly searches?: DatabasePool;
  readonly clock: Clock;
  readonly settings: CharitySettings;
  /** The limit of one attempt to ask a remote provider. */
  readonly timeoutMs?: number;
}): Charities => {
  const remote = {
    everyorg:
      everyorg &&
      createEveryOrg(
        { ...everyorg, timeoutMs },
        { takePermit: (bucket, limit) => takePermit(db, bucket, limit) },
      ),
    change: change && createChange({ ...change, timeoutMs }),
    pledge: pledge && createPledge({ ...pledge, timeoutMs }),
  };
  const kept = (name: keyof typeof remote): CharityProvider => {
    const provider = remote[name];
    return provider ? keepDetails(provider, { db, clock }) : createMissing(name);
  };
  const providers: Record<CharityProviderName, CharityProvider> = {
    catalogue: createCatalogue({ db, searches }),
    everyorg: kept("everyorg"),
    change: kept("change"),
    pledge: kept("pledge"),
  };
  return { named: (name) => providers[name] };
};
