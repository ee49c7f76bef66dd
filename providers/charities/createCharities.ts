import type { DatabasePool } from "slonik";
import type { CharityProviderName } from "../../domain/charities.ts";
import { createCatalogue } from "./catalogue/createCatalogue.ts";
import type { CharityProvider } from "./provider.ts";

/** The charity providers of this deployment. */
export type Charities = { readonly named: (name: CharityProviderName) => CharityProvider };

export const createCharities = ({ db }: { readonly db: DatabasePool }): Charities => {
  const catalogue = createCatalogue(db);
  return { named: () => catalogue };
};
