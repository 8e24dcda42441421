import { describe, expect, test } from 'vitest'
import type { Described } from '../parser/parser.ts'
import { completed, type Names } from './completion.ts'

const commands: readonly Described[] = [
  { name: 'parcel:list', summary: 'List parcels', options: [{ flags: '--of <sender>', summary: 'sender' }] },
  {
    name: 'parcel:send',
    summary: 'Send a parcel of a tenant',
    arguments: [
      { name: 'id', summary: 'of the tenant', required: true },
      { name: 'to', summary: 'receiver' },
    ],
  },
  {
    name: 'parcel:count',
    summary: 'Count parcels',
    arguments: [{ name: 'ids', summary: 'of tenants', isRepeatable: true }],
  },
  { name: 'carrier:use', summary: 'Select a carrier', arguments: [{ name: 'profile', summary: 'of the carrier' }] },
]

const queries: string[] = []
const names: Names = {
  tenantIds: async (prefix) => {
    queries.push(prefix)
    return ['acme', 'acme-test', 'globex'].filter((id) => id.startsWith(prefix))
  },
  profiles: async () => ['production', 'staging'],
}
const offered = async (...words: string[]) =>
  (await completed(commands, words, names))
    .trim()
    .split('\n')
    .slice(0, -1) // the directive
    .map((line) => line.split('\t')[0])

describe('completed', () => {
  test('completes the first word to commands', async () => {
    expect(await offered('')).toEqual(['parcel:list', 'parcel:send', 'parcel:count', 'carrier:use'])
    expect(await offered('parcel:s')).toEqual(['parcel:send'])
    expect(await completed(commands, ['parcel:l'], names)).toBe('parcel:list\tList parcels\n:4\n')
  })

  test('completes a dash to options of the command and common options', async () => {
    expect(await offered('parcel:list', '--')).toEqual(['--of', '--json', '--yes', '--app', '--config', '--profile'])
    expect(await offered('parcel:list', '--o')).toEqual(['--of'])
  })

  test('completes an argument `id` or `ids` to ids of tenants', async () => {
    expect(await offered('parcel:send', '')).toEqual(['acme', 'acme-test', 'globex'])
    expect(await offered('parcel:send', 'ac')).toEqual(['acme', 'acme-test'])
    expect(await offered('parcel:count', 'acme', 'g')).toEqual(['globex'])
    expect(await offered('parcel:send', 'acme', '')).toEqual([])
  })

  test('completes --profile and an argument `profile` to names of profiles', async () => {
    expect(await offered('parcel:list', '--profile', '')).toEqual(['production', 'staging'])
    expect(await offered('parcel:send', 'acme', '--profile', 's')).toEqual(['staging'])
    expect(await offered('carrier:use', 'p')).toEqual(['production'])
  })

  test('does not query the backoffice for other words', async () => {
    queries.length = 0
    for (const words of [['parcel:'], ['parcel:list', ''], ['parcel:send', '--'], ['nothing', '']]) {
      await completed(commands, words, names)
    }
    expect(queries).toEqual([])
  })

  test('returns no completions while the backoffice is unavailable', async () => {
    const fail = () => Promise.reject(new Error('unavailable'))
    const unavailable = { tenantIds: fail, profiles: fail }
    expect(await completed(commands, ['parcel:send', ''], unavailable)).toBe(':4\n')
    expect(await completed(commands, ['parcel:send', '--profile', ''], unavailable)).toBe(':4\n')
  })
})
