/*
 * The service worker's script. A page can serve the script as it is, or include the script in its own worker by
 * `importScripts` or `import`.
 */
import { RingWorker, type WorkerOptions, type WorkerScope } from "./ringing.js";

export type { WorkerOptions, WorkerTexts } from "./ringing.js";

declare const self: WorkerScope & { bellwire?: WorkerOptions };

new RingWorker(self, self.bellwire);
