/** The text of a token, `tnt_<id>_<secret>`: the id of its row, and 256 secret bits. */
const TOKEN = /^tnt_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})_([\w-]{43})$/

export const tokenText = (id: string, secret: string): string => `tnt_${id}_${secret}`

/** Undefined for another text, such as a configured token. */
export function parseToken(text: string): { readonly id: string; readonly secret: string } | undefined {
  const [, id, secret] = TOKEN.exec(text) ?? []
  return id === undefined || secret === undefined ? undefined : { id, secret }
}
