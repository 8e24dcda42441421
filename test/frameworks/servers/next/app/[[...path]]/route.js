/** Every path of the application, as a route handler of Next.js. */
import { handle } from '../../tenancy.js'

export const dynamic = 'force-dynamic'

export { handle as GET, handle as PATCH, handle as POST }
