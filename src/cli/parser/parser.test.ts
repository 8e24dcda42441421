import { beforeEach, describe, expect, test } from 'vitest'
import { InvalidRequest, invalid } from '../../kernel/base/errors.ts'
import { type CommandGroup, type Described, type Invocation, runProgram } from './parser.ts'

const groups: readonly CommandGroup<Described>[] = [
  {
    heading: 'Parcels:',
    commands: [
      {
        name: 'parcel:send',
        summary: 'Send a parcel',
        arguments: [
          { name: 'to', summary: 'receiver', required: true },
          { name: 'via', summary: 'carrier' },
        ],
        options: [
          { flags: '--label <text...>', summary: 'text of a label' },
          { flags: '--weight <kg>', summary: 'weight of the parcel', parse: weight, default: 1 },
          { flags: '--dry-run', summary: 'only show the parcel' },
        ],
      },
      {
        name: 'parcel:list',
        summary: 'List parcels',
        options: [{ flags: '--of <sender>', summary: 'sender', required: true }],
      },
    ],
  },
]

function weight(text: string): number {
  if (!/^\d+$/.test(text)) throw invalid([{ path: '', message: `"${text}" is not a weight` }])
  return Number(text)
}

let invocations: Invocation<Described>[]

beforeEach(() => {
  invocations = []
})

const run = async (...argv: string[]) => {
  await runProgram(groups, argv, async (invocation) => void invocations.push(invocation))
  return invocations[0]
}

describe('runProgram', () => {
  test('passes arguments, options and defaults by name, and common options separately', async () => {
    expect(await run('parcel:send', 'Ann', '--weight', '12', '--dry-run', '--json')).toMatchObject({
      command: { name: 'parcel:send' },
      args: { to: 'Ann' },
      options: { weight: 12, dryRun: true },
      common: { json: true, yes: false },
    })
  })

  test('takes one value for each flag of a variadic option, and leaves the next word to the arguments', async () => {
    const { args, options } = (await run('parcel:send', '--label', 'glass', '--label', 'this side up', 'Ann')) ?? {}
    expect(args).toEqual({ to: 'Ann' })
    expect(options).toEqual({ label: ['glass', 'this side up'], weight: 1 })
  })
})

test.each([
  [['parcel:snd', 'Ann'], /unknown command 'parcel:snd'\n\(Did you mean parcel:send\?\)/],
  [['parcel:send'], /missing required argument 'to'/],
  [['parcel:send', 'a', 'b', 'c'], /too many arguments/],
  [['parcel:send', 'Ann', '--wieght', '3'], /unknown option '--wieght'\n\(Did you mean --weight\?\)/],
  [['parcel:send', 'Ann', '--weight', 'heavy'], /'--weight <kg>' argument 'heavy' is invalid. "heavy" is not a weight/],
  [['parcel:send', 'Ann', '--weight'], /argument missing/],
  [['parcel:list'], /required option '--of <sender>' not specified/],
])('runProgram rejects %j with a message that names the problem', async (argv, words) => {
  const refusal = await run(...argv).catch((error) => error)
  expect(InvalidRequest.matches(refusal)).toBe(true)
  expect(refusal.message).toMatch(words)
  expect(refusal.message).not.toMatch(/^error:/)
  expect(invocations).toEqual([])
})
