/** Flags of tenants in the palette: `new-editor acme`, also if the tenant does not have the flag yet. */
import { call } from '../../../console/data/call.ts'
import { ranked } from '../../../console/keys/match.ts'
import { foundTenants } from '../../../console/keys/objects.ts'
import type { PaletteEntry } from '../../../console/module.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { flagPath } from './model.ts'
import { text } from './text.ts'

const KEYS_READ = 50
const MAX_KEY_LENGTH = 128
const MAX_KEYS = 3
const MAX_TENANTS = 5

/** The first word is a part of the key, the others select tenants. */
export async function findFlags(query: string, signal: AbortSignal): Promise<PaletteEntry[]> {
  const [wanted = '', ...more] = query.split(/\s+/)
  const q = more.join(' ')
  if (!wanted || !q) return []
  const { data } = await call(
    'featureFlags.listKeys',
    { query: { q: wanted.slice(0, MAX_KEY_LENGTH), limit: KEYS_READ } },
    { signal },
  )
  const keys = ranked(
    wanted,
    data.map(({ key }) => ({ title: key })),
  ).slice(0, MAX_KEYS)
  if (keys.length === 0) return []
  const tenants = (await foundTenants(q, signal)).slice(0, MAX_TENANTS)
  return keys.flatMap(({ title: key }) =>
    tenants.map(({ id, name }) => ({
      id,
      title: text.flagOf(key, name),
      note: text.flagNote,
      href: tenantHref(id, flagPath(key)),
    })),
  )
}
