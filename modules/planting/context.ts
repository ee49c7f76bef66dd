import type { Planting } from "./createPlanting.ts";
import type { Context } from "../../runtime/context.ts";

export type PlantingContext = Context & { readonly planting: Planting };

export type EvidenceContext = PlantingContext & {
  /** The public URL of this service, without a slash at the end. */
  readonly publicBaseUrl: () => string;
};
