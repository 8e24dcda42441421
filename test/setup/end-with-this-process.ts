/** What was started for a run of tests does not outlive it. */
import { spawn } from 'node:child_process'

/**
 * A shell that waits for its input to end, which it does when this process is gone, however it went: Vitest calls no
 * teardown when a signal ends it. Returns what sends the shell away.
 *
 * @param directory is removed then.
 */
export function endWithThisProcess(pid: number, directory: string): () => void {
  const script = 'cat; kill -QUIT "$1"; while kill -0 "$1"; do sleep 0.1; done; rm -rf "$2"'
  const shell = spawn('sh', ['-c', script, 'sh', String(pid), directory], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  shell.unref()
  return () => shell.kill()
}
