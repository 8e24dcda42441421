/** Runs cases of commands in one environment and compares them with golden files. */
import { afterAll, beforeAll, inject } from 'vitest'
import { satellites } from '../src/service/main.ts'
import { processesPart } from '../src/tenancy/processes.ts'
import { commands as tenantCommands } from '../src/tenants/commands/tenants.ts'
import { notificationsReceived } from '../src/testing/base/tenancy.ts'
import type { Api } from './contract/calls.ts'
import { expectPrinted, expectSameValue } from './contract/golden.ts'
import { merged } from './contract/parts.ts'
import { printedBy, type RunCommand } from './contract/printed.ts'
import { BY_COMMAND_LINE } from './contract/program-cases.ts'
import type { CommandCase } from './contract/row.ts'
import { filled, type OpenRunner, openRunner } from './contract/runner.ts'

/** Commands of tenants and satellites, which run on an open tenancy. */
const onOpenTenancy = Object.entries(merged('commands')).filter(([name]) => !(name in BY_COMMAND_LINE))
const declared = [
  ...tenantCommands,
  ...(processesPart.commands ?? []),
  ...satellites.flatMap(({ commands = [] }) => commands),
]
const needsWorker = ([name, { isEndless }]: (typeof onOpenTenancy)[number]) =>
  isEndless === true || declared.some((one) => one.name === name && one.needsWorker)
export const besideWorker = onOpenTenancy.filter(needsWorker)
export const withoutWorker = onOpenTenancy.filter((one) => !needsWorker(one))

/** State of one test file. */
export function useGolden() {
  let runner: OpenRunner
  beforeAll(async () => {
    runner = await openRunner(inject('postgresUrl'))
  })
  afterAll(() => runner?.end())

  async function printed(
    { tenancy }: Api,
    name: string,
    { isEndless, json = {}, ...given }: CommandCase,
    isJson: boolean,
    run?: RunCommand,
  ): Promise<string> {
    const one = { ...given, ...json }
    const names = await runner.prepare(one)
    if (isEndless) await notificationsReceived(tenancy) // otherwise it may print the changes of the preparation
    let hasSpoken = false
    const spoken = async () => {
      if (hasSpoken) return
      hasSpoken = true
      for (const request of one.meanwhile ?? []) {
        const [method = '', path = '', ...body] = filled(request, names).split(' ')
        await runner.api.call(method, path, { body: body.join(' ') })
      }
    }
    return printedBy(tenancy, [name, ...filled(one.line, names)], { isEndless, spoken, isJson, run })
  }

  return {
    /** Commands of tenants and satellites. */
    commands: declared,
    get runner() {
      return runner
    },
    async held(api: Api, name: string, one: CommandCase): Promise<void> {
      expectPrinted(name, one.json?.line ?? one.line, await printed(api, name, one, true))
    },
    /** With another function of the command, and the same result. */
    async heldBy(api: Api, name: string, one: CommandCase, run: RunCommand): Promise<void> {
      expectSameValue(name, await printed(api, name, one, true, run))
    },
    /** Text output of a command. */
    text: (api: Api, name: string, one: CommandCase): Promise<string> => printed(api, name, one, false),
  }
}
