/** The last line of a run, for whoever reads only that: `N passed, N failed`. A skipped test counts as failed: there are none. */
import type { Reporter, TestModule } from 'vitest/node'

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state))
    const passed = states.filter((state) => state === 'passed').length
    const broken = modules.filter((module) => module.errors().length > 0).length + errors.length
    // Written when the process ends, after everything else that reports.
    process.once('exit', () => process.stdout.write(`\n${passed} passed, ${states.length - passed + broken} failed\n`))
  }
}
