/**
 * What every command prints with `--json` is one JSON value, or one a line where results come one after the other, and has the
 * shape that a golden file holds; a few are held as people read them. A command without a golden file fails, and so does a file without a
 * command. The cases of tenants and satellites are those of test/contract; the program's own are in golden.program.test.ts.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { allCommands } from '../src/cli/program.ts'
import { satellites } from '../src/service/main.ts'
import { commands as tenantCommands } from '../src/tenants/commands.ts'
import type { Api } from './contract/calls.ts'
import { expectPrinted, strayGoldens } from './contract/golden.ts'
import { merged } from './contract/parts.ts'
import { printedBy } from './contract/printed.ts'
import { BY_COMMAND_LINE, PAGES, SERVING } from './contract/program-cases.ts'
import type { CommandCase } from './contract/row.ts'
import { filled, type OpenStage, openStage } from './contract/stage.ts'

let stage: OpenStage

beforeAll(async () => {
  stage = await openStage(inject('postgresUrl'))
})
afterAll(() => stage?.end())

test('every command has a case, and every golden file a command', () => {
  const cases = [...new Set([...Object.keys(merged('commands')), ...Object.keys(BY_COMMAND_LINE), ...SERVING])]
  const names = allCommands().map(({ name }) => name)
  expect(cases.sort()).toEqual(names.sort())
  expect(strayGoldens(Object.keys(PAGES))).toEqual([])
})

const onOpenTenancy = Object.entries(merged('commands')).filter(([name]) => !(name in BY_COMMAND_LINE))
const declared = [...tenantCommands, ...satellites.flatMap(({ commands = [] }) => commands)]
const needsWorker = ([name, { isEndless }]: (typeof onOpenTenancy)[number]) =>
  isEndless === true || declared.some((one) => one.name === name && one.needsWorker)

test.each(onOpenTenancy.filter((one) => !needsWorker(one)))('%s, with --json', (name, one) =>
  held(stage.api, name, one),
)

describe('beside a worker', () => {
  let worker: Api
  beforeAll(async () => {
    worker = await stage.open({ role: 'all' })
  })
  afterAll(() => worker?.tenancy.stop())
  test.each(onOpenTenancy.filter(needsWorker))('%s, with --json', (name, one) => held(worker, name, one))
})

async function held({ tenancy }: Api, name: string, { isEndless, json = {}, ...given }: CommandCase): Promise<void> {
  const one = { ...given, ...json }
  const names = await stage.prepare(one)
  let hasSpoken = false
  const spoken = async () => {
    if (hasSpoken) return
    hasSpoken = true
    for (const request of one.meanwhile ?? []) {
      const [method = '', path = '', ...body] = filled(request, names).split(' ')
      await stage.api.call(method, path, { body: body.join(' ') })
    }
  }
  const stdout = await printedBy(tenancy, [name, ...filled(one.line, names)], { isEndless, spoken })
  expectPrinted(name, one.line, stdout)
}
