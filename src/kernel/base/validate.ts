/** Validates input by a schema. Input from code is checked as strictly as input over HTTP. */
import type { z } from 'zod'
import { type InputError, invalid } from './errors.ts'

/** Returns the value, or throws `E_INVALID_REQUEST` with every error; `where` precedes their paths. */
export function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, where = ''): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalid(validationErrorsOf(result.error, where))
}

export const validationErrorsOf = (error: z.ZodError, where = ''): InputError[] =>
  error.issues.map((issue) => ({
    path: [where, ...issue.path.map(String)].filter(Boolean).join('.'),
    message: issue.message,
  }))
