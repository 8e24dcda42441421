/** Ends a started process with this one. */
import { spawn } from 'node:child_process'

/**
 * Starts a shell that waits for the end of its input, which comes when this process ends in any way: Vitest runs no
 * teardown after a signal. Returns a function that stops the shell.
 *
 * @param directory removed afterwards
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
