/** Validates and generates the secrets of subscriptions. */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { STANDARD_PREFIX, secretErrorOf } from './signing.ts'

const KEY_BYTES = 32

/** Schema of a secret that the subscriber chooses. */
export const Secret: z.ZodType<string> = z
  .string()
  .check((context) => {
    const message = secretErrorOf(context.value)
    if (message !== undefined) context.issues.push({ code: 'custom', message, input: context.value })
  })
  .meta({
    description:
      '16 to 256 visible ASCII characters without spaces. After the prefix `whsec_`, the base64 of 24 to 64 bytes.',
  })

/** Returns `whsec_` and the base64 of 32 random bytes. */
export const newSecret = (): string => `${STANDARD_PREFIX}${randomBytes(KEY_BYTES).toString('base64')}`
