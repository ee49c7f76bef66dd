import { createStore as create } from "../../../services/stores/createStore.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printRecord } from "../../output/print.ts";

export type CreateOptions = ChangeOptions & {
  readonly domain: string;
  readonly org?: string;
  readonly userId?: string;
  readonly treePrice: number;
  readonly bottlePrice: number;
  readonly lowBalance: number;
};

export const createStore = async (context: CliContext, options: CreateOptions): Promise<void> => {
  const { io } = context;
  const { id, domain, apiKeyProd, apiKeyTest } = await create(await openChange(context, options), {
    domain: options.domain,
    userId: options.userId ?? null,
    organizationId: options.org ?? null,
    treePriceCents: options.treePrice,
    bottlePriceCents: options.bottlePrice,
    lowBalanceCents: options.lowBalance,
  });
  const created = { id, domain, api_key_prod: apiKeyProd, api_key_test: apiKeyTest };
  if (options.json) {
    printJson(io, created);
  } else {
    printRecord(io, created);
  }
  say(io, "Save these keys now; they cannot be shown again.");
  say(io, "The balance is $0.00. To add to it, use impact store topup.");
};
