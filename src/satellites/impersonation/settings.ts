import { z } from 'zod'

/** Maximum that no configuration can exceed. */
const MAX_SECONDS = 3_600
const DEFAULT_SECONDS = 900

const Seconds = z.int().min(1).max(MAX_SECONDS)

export const Options = z
  .strictObject({
    /** Maximum duration of a session. */
    maxSeconds: Seconds.default(MAX_SECONDS),
    /** Duration of a session that names none. Default: 900, or `maxSeconds` if less. */
    defaultSeconds: Seconds.optional(),
  })
  .refine(({ maxSeconds, defaultSeconds = 0 }) => defaultSeconds <= maxSeconds, {
    error: 'must not exceed maxSeconds',
    path: ['defaultSeconds'],
  })
export type ImpersonationOptions = z.input<typeof Options>

export interface Durations {
  readonly maxSeconds: number
  readonly defaultSeconds: number
}

export const withDefaults = ({ maxSeconds, defaultSeconds }: z.output<typeof Options>): Durations => ({
  maxSeconds,
  defaultSeconds: defaultSeconds ?? Math.min(DEFAULT_SECONDS, maxSeconds),
})

/** One line for lists, terminals and names: no control characters, and none that change the writing direction. */
const ONE_LINE = /^[^\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]*$/u
const isOneLine = (text: string): boolean => text.isWellFormed() && ONE_LINE.test(text)
const SAYS_SOMETHING = /[\p{L}\p{N}\p{S}]/u

const Name = z
  .string()
  .min(1)
  .max(200)
  .refine(isOneLine, 'must not contain control characters')
  .refine((text) => text.trim() !== '', 'must not be blank')

export const UserId = Name.meta({
  description: "The host's id of the user; Tenantry does not check it",
  example: 'user-42',
})

/** Body of the HTTP request. */
export const NewImpersonation = z.strictObject({
  userId: UserId,
  reason: z
    .string()
    .trim()
    .max(500)
    .refine(isOneLine, 'must not contain control characters')
    .refine((text) => SAYS_SOMETHING.test(text), 'must not be blank')
    .meta({
      description: 'Reason, recorded in the audit log with every request',
      example: 'Ticket 4711: exports fail',
    }),
  durationSeconds: Seconds.optional().meta({ description: 'Default 900; the configuration may allow less than 3600' }),
})

/** In code also the actor: the host's signed-in user. */
export const NewImpersonationBy = NewImpersonation.extend({
  actor: z.strictObject({ id: Name, name: Name.optional() }).optional(),
})
export type NewImpersonationBy = z.input<typeof NewImpersonationBy>
