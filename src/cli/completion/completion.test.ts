import { describe, expect, test } from 'vitest'
import type { Described } from '../parser/parser.ts'
import { completed } from './completion.ts'

const commands: readonly Described[] = [
  { name: 'parcel:list', summary: 'List parcels', options: [{ flags: '--of <who>', summary: 'whose' }] },
  {
    name: 'parcel:send',
    summary: 'Send a parcel of a tenant',
    arguments: [
      { name: 'id', summary: 'of the tenant', required: true },
      { name: 'to', summary: 'who receives it' },
    ],
  },
  {
    name: 'parcel:count',
    summary: 'Count them',
    arguments: [{ name: 'ids', summary: 'of tenants', isRepeatable: true }],
  },
]

const asked: string[] = []
const tenants = async (prefix: string) => {
  asked.push(prefix)
  return ['acme', 'acme-test', 'globex'].filter((id) => id.startsWith(prefix))
}
const offered = async (...words: string[]) =>
  (await completed(commands, words, tenants))
    .trim()
    .split('\n')
    .slice(0, -1) // the directive
    .map((line) => line.split('\t')[0])

describe('completions', () => {
  test('of the first word are commands', async () => {
    expect(await offered('')).toEqual(['parcel:list', 'parcel:send', 'parcel:count'])
    expect(await offered('parcel:s')).toEqual(['parcel:send'])
    expect(await completed(commands, ['parcel:l'], tenants)).toBe('parcel:list\tList parcels\n:4\n')
  })

  test('of a dash are options of the command and common options', async () => {
    expect(await offered('parcel:list', '--')).toEqual(['--of', '--json', '--yes', '--config'])
    expect(await offered('parcel:list', '--o')).toEqual(['--of'])
  })

  test('of an argument `id` or `ids` are the ids of tenants', async () => {
    expect(await offered('parcel:send', '')).toEqual(['acme', 'acme-test', 'globex'])
    expect(await offered('parcel:send', 'ac')).toEqual(['acme', 'acme-test'])
    expect(await offered('parcel:count', 'acme', 'g')).toEqual(['globex'])
    expect(await offered('parcel:send', 'acme', '')).toEqual([])
  })

  test('of other words do not query the backoffice', async () => {
    asked.length = 0
    for (const words of [['parcel:'], ['parcel:list', ''], ['parcel:send', '--'], ['nothing', '']]) {
      await completed(commands, words, tenants)
    }
    expect(asked).toEqual([])
  })

  test('are empty while the backoffice is unavailable', async () => {
    const unavailable = () => Promise.reject(new Error('unavailable'))
    expect(await completed(commands, ['parcel:send', ''], unavailable)).toBe(':4\n')
  })
})
