/** The text of a token, `tnt_<id>_<secret>`: 64 random bits that find its row, and 256 secret bits. */
import { randomBytes } from 'node:crypto'

const TOKEN = /^tnt_([0-9a-f]{16})_([\w-]{43})$/

export const TOKEN_ID = /^[0-9a-f]{16}$/

export const newTokenId = (): string => randomBytes(8).toString('hex')

export const tokenText = (id: string, secret: string): string => `tnt_${id}_${secret}`

/** Undefined for another text, such as a configured token. */
export function parseToken(text: string): { readonly id: string; readonly secret: string } | undefined {
  const [, id, secret] = TOKEN.exec(text) ?? []
  return id === undefined || secret === undefined ? undefined : { id, secret }
}
