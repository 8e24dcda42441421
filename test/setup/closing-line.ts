/**
 * The last line of a run, for whoever reads only that: `N passed, N failed`. A skipped test counts as failed: there are none.
 * Before it, what this machine has no program for.
 */
import type { Reporter, TestModule } from 'vitest/node'
import { notRun } from './not-run.ts'

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state))
    const passed = states.filter((state) => state === 'passed').length
    const broken = modules.filter((module) => module.errors().length > 0).length + errors.length
    // Written when the process ends, after everything else that reports.
    const missing = notRun.map(({ name, program }) => `not run: ${name} (there is no ${program})\n`).join('')
    const closing = `${missing}\n${passed} passed, ${states.length - passed + broken} failed\n`
    process.once('exit', () => process.stdout.write(closing))
  }
}
