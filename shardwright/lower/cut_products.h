// Products cut by rows, so that what moves of one piece goes on beside the product of another.
//
//   all_gather x; y = x w          x in K pieces of rows of each rank; each piece is gathered and multiplied by itself
//   y = x w; reduce_scatter y      each piece of rows is multiplied and added up by itself; so with an all_reduce
//
// The i-th piece has the i-th of K equal runs of every rank's rows, so that each collective brings the same of all, and
// what a rank has at the end lies as before. What is computed of each row by itself in between, an activation, another product,
// goes on in pieces; they are put together where somebody reads all rows. Nothing is computed or sent twice.
//
// It is done on the graph, with strategies for the new nodes; lowering adds the collectives as it does anywhere.
#pragma once

#include "shardwright/graph/graph.h"

namespace shardwright {

/// `graph`, whose compute nodes all have strategies, with such products in pieces. What is kept, handed out or sent stays whole, under
/// its name.
Graph with_cut_products(const Graph& graph);

}  // namespace shardwright
