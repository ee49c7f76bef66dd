import type { Context } from "../../runtime/context.ts";
import type { StoreWriter } from "./createStoreWriter.ts";

export type StoreContext = Context & { readonly storeWriter: StoreWriter };
