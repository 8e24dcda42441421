/**
 * Compares output of commands with golden files: `--json` prints one JSON value, or one per line for streams. Every
 * command needs a golden file. The cases of tenants and satellites are in test/contract; see golden.program.test.ts and
 * golden.worker.test.ts for the others.
 */
import { expect, test } from 'vitest'
import { allCommands } from '../src/cli/program.ts'
import { commandsOf } from '../src/kernel/api/projection.ts'
import { satellites } from '../src/service/main.ts'
import { operations } from '../src/tenants/operations/tenants.ts'
import { orphanedGoldens } from './contract/golden.ts'
import { merged } from './contract/parts.ts'
import { BY_COMMAND_LINE, PAGES, SERVING, STARTING_PROCESSES } from './contract/program-cases.ts'
import { useGolden, withoutWorker } from './golden.fixture.ts'

const here = useGolden()

test('every command has a case, and every golden file a command', () => {
  const own = [...Object.keys(BY_COMMAND_LINE), ...SERVING, ...STARTING_PROCESSES]
  const cases = [...new Set([...Object.keys(merged('commands')), ...own])]
  const names = allCommands().map(({ name }) => name)
  expect(cases.sort()).toEqual(names.sort())
  expect(orphanedGoldens(Object.keys(PAGES))).toEqual([])
})

test('every command of an operation is a command of the program', () => {
  const all = [...operations, ...satellites.flatMap((satellite) => satellite.operations ?? [])]
  const names = allCommands().map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(commandsOf(all).map(({ name }) => name)))
})

test.each(withoutWorker)('%s, with --json', (name, one) => here.held(here.runner.api, name, one))
