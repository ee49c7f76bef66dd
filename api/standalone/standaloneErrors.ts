import { z } from "zod";
import type { PresentError } from "../../runtime/errorStatus.ts";
import { responseObject } from "../http/parseRequest.ts";

export const errorBody = responseObject("Error", { error: z.string() });

export const presentError: PresentError = (_code, error) => ({ error });
