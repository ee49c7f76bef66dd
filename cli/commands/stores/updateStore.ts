import type { CharityProviderName, Kind } from "../../../domain/accounts/accounts.ts";
import { updateStore as update } from "../../../services/stores/updateStore.ts";
import { nullIfNone } from "../../arguments.ts";
import { awaitCachedKeys } from "../../apiKeys.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import type { LimitOptions } from "../../limitOptions.ts";
import { newLimitsOf } from "../../limitOptions.ts";
import { warnAboutCharityProvider } from "../../charitySettings.ts";
import { findNamedStore } from "../../accountOptions.ts";
import { printStore } from "./presentStore.ts";

export type UpdateOptions = ChangeOptions &
  LimitOptions & {
    readonly org?: string;
    readonly userId?: string;
    readonly treePrice?: number;
    readonly bottlePrice?: number;
    readonly lowBalance?: number;
    readonly treePlanting?: boolean;
    readonly plasticRemoval?: boolean;
    readonly donations?: boolean;
    readonly charityProvider?: CharityProviderName;
  };

export const updateStore = async (
  context: CliContext,
  idOrDomain: string,
  options: UpdateOptions,
): Promise<void> => {
  const { io } = context;
  const { json, org, userId, treePrice, bottlePrice, lowBalance, charityProvider } = options;
  const changes = {
    treePlanting: options.treePlanting,
    plasticRemoval: options.plasticRemoval,
    donations: options.donations,
    charityProvider,
    limits: newLimitsOf(options) ?? undefined,
    organizationId: nullIfNone(org),
    userId,
    ...({ treePriceCents: treePrice, bottlePriceCents: bottlePrice } satisfies Record<
      `${Kind}PriceCents`,
      number | undefined
    >),
    lowBalanceCents: lowBalance,
  };
  if (Object.values(changes).every((value) => value === undefined)) {
    throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
  }
  const deps = await openChange(context, options);
  const { id } = await findNamedStore(deps.db, idOrDomain);
  printStore(io, await update(deps, id, changes), {
    json,
  });
  await awaitCachedKeys(io);
  if (charityProvider !== undefined) {
    warnAboutCharityProvider(context, charityProvider);
  }
};
