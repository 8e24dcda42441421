/**
 * Prints the last lines of a run: fast test files over their time limit, missing programs, and `N passed, N failed`. A
 * skipped test counts as failed.
 */
import { relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { notRun } from './not-run.ts'
import { FAST_FILE_MS, tierOf } from './tiers.ts'

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state))
    const passed = states.filter((state) => state === 'passed').length
    const parts = modules.flatMap((module) => [module, ...module.children.allSuites()])
    const broken = parts.filter((part) => part.errors().length > 0).length + errors.length
    const slow = modules.filter((module) => tierOf(module.moduleId) === 'fast' && durationOf(module) > FAST_FILE_MS)
    const lines = [
      ...slow.map((module) => `slow: ${relative('', module.moduleId)} took ${seconds(durationOf(module))}`),
      ...notRun.map(({ name, program }) => `not run: ${name} (${program} is not available)`),
      '',
      `${passed} passed, ${states.length - passed + broken} failed`,
    ]
    // Written on exit, after all other reporters.
    process.once('exit', () => process.stdout.write(`${lines.join('\n')}\n`))
  }
}

const durationOf = (module: TestModule): number => module.diagnostic().duration

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s, more than ${FAST_FILE_MS / 1000} s`
