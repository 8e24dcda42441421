/** Takes whatever comes, reads it, and answers 204; below `/never` it does not answer. */
import { listen } from '../listen.ts'

listen(
  async (incoming, outgoing) => {
    if (incoming.url?.startsWith('/never')) return
    incoming.resume()
    incoming.once('end', () => outgoing.writeHead(204).end())
  },
  async () => undefined,
)
